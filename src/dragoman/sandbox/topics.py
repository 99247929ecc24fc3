"""Which topics a complaint touches and how sharp it is, by the words it uses in eight languages."""

# ruff: noqa: E501 - the words of one language stand on one line

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

TOPICS: Final = ("noise", "cleanliness", "privacy", "guests", "schedule", "communication", "other")

# Beginnings of words: en, de, es, fr, pt, it, nl, pl.
_STEMS: Final = {
    "noise": """noise noisy loud music shout drill volume quiet sleep
        laut lärm musik krach ruhe schlaf ruido ruidos música volumen dormir silencio
        bruit bruyant musique sommeil barulh barulho música rumor musica volume
        lawaai muziek herrie luid slapen hałas głośn muzyk cisz""",
    "cleanliness": """clean dirty dish dishes trash garbage mess kitchen crumbs laundry bathroom hair
        sauber schmutz dreck geschirr müll küche putz abwasch bad unordnung
        limpi suci platos basura cocina desorden sale saleté vaisselle poubelle cuisine propre ménage
        limp suj louça lixo cozinha puli sporc piatti spazzatura cucina disordine
        schoon vies vuil afwas keuken rommel vuilnis czyst brud naczyn śmieci kuchni bałagan sprząt""",
    "privacy": """privacy private knock bedroom door permission diary
        privat privatsphäre klopf anklopf zimmer tür erlaubnis privacidad intimidad habitación puerta
        intimité vie-privée chambre porte frapper privacidade quarto porta
        riservatezza camera bussare kloppen slaapkamer deur prywat puka pokój drzwi""",
    "guests": """guest visitor friends party parties boyfriend girlfriend stranger
        gäste gast besuch freunde feier party fremde invitad visita amigos fiesta
        invité visite amis fête convidad visita festa ospit invitat amici festa
        gasten bezoek vrienden feest gości goście odwiedzin przyjaci impreza""",
    "schedule": """schedule late morning calendar appointment routine plan shift early
        zeitplan spät termin morgens kalender früh horario tarde calendario rutina cita
        horaire tard calendrier planning agenda horário rotina orari ritardo programma
        rooster afspraak laat planning plan harmonogram późno rano spóźni""",
    "communication": """message reply respond answer talk tell text listen ignore
        nachricht antwort reden sprechen melde ignorier mensaje respond hablar escuch
        message répond parler écoute mensagem falar ouvir messaggi rispond parlare ascolt
        bericht antwoord praten luister wiadomo odpowi rozmaw słucha""",
}
_SHARP: Final = """always never hate stupid idiot disgusting sick unbelievable lazy shut damn ridiculous rude
    immer nie nervt hasse dumm ekelhaft faul unverschämt schluss verdammt rücksichtslos
    siempre nunca odio asco harto vago maldit toujours jamais déteste marre insupportable
    sempre mai nunca odeio nojo odio schifo basta altijd nooit haat walgelijk zat
    zawsze nigdy nienawidz obrzydl dość""".split()
_ASKS: Final = """please could would can möchte bitte könnt podría podrías por favor pourrais pourriez
    poderia potresti vorrei kun zou alsjeblieft proszę mógłby czy""".split()
_BOUNDS: Final = """stop don't must cannot nicht darfst hör aufhören para no arrête cesse pare smettila non
    niet hou przestań nie""".split()
_MANY_SHOUTED: Final = 0.6


def _starts(stems: Sequence[str]) -> re.Pattern[str]:
    return re.compile(r"\b(?:" + "|".join(map(re.escape, stems)) + ")")


_BY_TOPIC: Final = {topic: _starts(stems.split()) for topic, stems in _STEMS.items()}
_SHARP_WORDS: Final = _starts(_SHARP)
_ASKING: Final = _starts(_ASKS)
_BOUNDING: Final = _starts(_BOUNDS)


def topics_of(text: str) -> list[str]:
    """One to three topics, most touched first; without any the text is about something else.

    >>> topics_of("Die Musik ist so laut, und überall liegt Müll.")
    ['noise', 'cleanliness']
    """
    folded = text.casefold()
    hits = {topic: len(pattern.findall(folded)) for topic, pattern in _BY_TOPIC.items()}
    found = sorted((topic for topic in hits if hits[topic]), key=lambda topic: -hits[topic])
    return found[:3] or ["other"]


def intent_of(text: str) -> str:
    """What the text wants; unsure means a concern."""
    folded = text.casefold()
    if _ASKING.search(folded):
        return "request"
    if _BOUNDING.search(folded):
        return "boundary"
    return "clarification" if text.rstrip().endswith("?") else "concern"


def is_sharp(text: str) -> bool:
    """Whether the text accuses, shouts or exclaims."""
    letters = [letter for letter in text if letter.isalpha()]
    shouted = sum(letter.isupper() for letter in letters)
    is_shouting = len(letters) > 8 and shouted > _MANY_SHOUTED * len(letters)
    return is_shouting or "!" in text or _SHARP_WORDS.search(text.casefold()) is not None
