from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.rewrite.contracts import Violation, Warned
from dragoman.rewrite.lexicon import LOCALES, days_in, fold, numbers_in, scan

# What rewrites really say: the words of a household, politely. None of it may be refused.
CLEAN = {
    "en": [
        "Could we find a calmer way to share the shower and the bathroom space in the morning?",
        "When the trash stays in the kitchen I find it hard to cook. Could you take it out?",
        "I really appreciate that you always help and that you always ask before a party.",
        "I know you have to get up early, and you must be tired; could the music be softer?",
        "Would it be all right to turn down the bass, so that I can sleep before my exam?",
        "I felt uneasy when my cupboard was opened. Could you ask me first next time?",
        "A chink of light comes through my door. Could the hall lamp be off at night?",
        "We can talk by text or in person, as you prefer. I could also come down to you.",
    ],
    "de": [
        "Könntest du bitte den Müll rausbringen und das Bad nach dem Duschen kurz lüften?",
        "Die Teller sind noch schmutzig, sie sind mir heute früh aufgefallen. Hilfst du mir?",
        "Ich freue mich, dass du immer mithilfst. Könnte die Musik abends etwas leiser sein?",
        "Mir ist Ruhe vor der Arbeit wichtig, weil ich sonst schlecht in den Tag komme.",
        "Ich bin unsicher, wie wir den Schrank im Flur und den Kühlschrank aufteilen können.",
        "Wenn Besuch über Nacht bleibt, würde ich mich über eine kurze Nachricht freuen.",
    ],
    "es": [
        "¿Podrías sacar la basura y dejar libre la ducha por la mañana? Me ayudaría mucho.",
        "Cuando estás enfermo, dime y hago yo la compra. ¿Podemos hablar del espacio común?",
        "Me gusta que siempre ayudas. ¿Te parece bien que bajemos un poco la música?",
        "Espero que te den buenas noticias. ¿Podemos ver la dirección del reparto de tareas?",
        "También es mi casa y me gustaría sentirme a gusto en la cocina. ¿Hablamos?",
        "Quizá estés cansada; cuando puedas, ¿recogemos juntas los platos de la cena?",
    ],
    "fr": [
        "Pourrais-tu sortir la poubelle et laisser la douche libre le matin, s'il te plaît ?",
        "C'est une espèce de courant d'air dans le couloir. Peux-tu fermer la porte, le soir ?",
        "J'aimerais mettre la table et faire la vaisselle ensemble, comme tu préfères.",
        "Le retard du ménage me pèse un peu. Est-ce qu'on peut en parler calmement ?",
        "J'apprécie que tu penses toujours à prévenir. La musique pourrait-elle être plus basse ?",
        "Je dors mal quand la télé reste allumée. Un peu de calme m'aiderait beaucoup.",
    ],
    "it": [
        "Potresti portare fuori la spazzatura e lasciare libera la doccia la mattina?",
        "Quando sto zitto è perché sono stanco. Possiamo parlarne con calma dopo cena?",
        "Mi fa piacere che aiuti sempre. La musica potrebbe essere un po' più bassa?",
        "È anche casa mia e mi piacerebbe avere un po' di spazio in frigorifero. Ti va?",
        "Sei gentile a chiedere. Mi aiuterebbe un messaggio prima che arrivino gli ospiti.",
        "Provo un po' di vergogna a dirlo, ma dormo male quando la televisione resta accesa.",
    ],
    "nl": [
        "Zou je het vuilnis buiten willen zetten en de douche 's ochtends vrij willen laten?",
        "Ik word vaak gestoord in mijn slaap door de bas. Kan de muziek iets zachter?",
        "Ik weet dat je gek bent op koken. Kunnen we de keuken daarna samen opruimen?",
        "Het is ook mijn huis en ik voel me er graag op mijn gemak. Zullen we praten?",
        "Fijn dat je altijd meehelpt. Ik zou blij zijn met een berichtje als er bezoek komt.",
        "De afwas staat er nog; dat maakt het voor mij lastig om te koken. Help je mee?",
    ],
    "pl": [
        "Czy możesz wynieść śmieci i zostawić rano wolny prysznic? Bardzo by mi to pomogło.",
        "Cieszę się, że zawsze pomagasz. Czy muzyka mogłaby być wieczorem trochę cichsza?",
        "Na stole stoi narcyz, który dostałam. Czy możemy zostawić trochę miejsca w kuchni?",
        "To też mój dom i chciałabym czuć się w nim dobrze. Porozmawiamy spokojnie?",
        "Trudno mi zasnąć, gdy telewizor gra do późna. Czy możemy znaleźć rozwiązanie?",
        "Byłoby mi miło, gdybyś dała znać, zanim przyjdą goście.",
    ],
    "pt": [
        "Podias levar o lixo e deixar o chuveiro livre de manhã? Ajudava-me muito.",
        "Gosto que ajudas sempre. A música podia estar um pouco mais baixa à noite?",
        "Estou na fila há muito tempo para falar contigo sobre o espaço da cozinha.",
        "Esta também é a minha casa e gostava de me sentir bem aqui. Podemos conversar?",
        "Durmo mal quando a televisão fica ligada. Um pouco de silêncio seria ótimo.",
        "Você poderia me avisar antes de receber visitas? Eu ficaria mais tranquilo.",
    ],
}

REFUSED = [
    ("en", "This is fucking loud.", Violation.VULGARITY),
    ("en", "That is bull\u200bshit.", Violation.VULGARITY),
    ("en", "What the f***, or the f*cking dishes.", Violation.VULGARITY),
    ("en", "Only a retard would do this.", Violation.SLUR),
    ("en", "You\u2019re such an\nIDIOT.", Violation.PERSONAL_ATTACK),
    ("en", "You are really lazy.", Violation.PERSONAL_ATTACK),
    ("en", "You never clean.", Violation.BLAME),
    ("en", "It's all your fault.", Violation.BLAME),
    ("en", "I demand silence. As the owner I can.", Violation.AUTHORITY),
    ("en", "I know you prefer quiet.", Violation.PREFERENCE_DISCLOSURE),
    ("en", "This sounds like OCD.", Violation.MEDICAL),
    ("de", "So eine Scheiße hier.", Violation.VULGARITY),
    ("de", "Du bist einfach faul.", Violation.PERSONAL_ATTACK),
    ("de", "Du putzt nie.", Violation.BLAME),
    ("de", "Ich verlange Ruhe.", Violation.AUTHORITY),
    ("de", "Das klingt nach ADHS.", Violation.MEDICAL),
    ("es", "Qué mierda de ruido.", Violation.VULGARITY),
    ("es", "Eres muy egoísta.", Violation.PERSONAL_ATTACK),
    ("es", "Nunca limpias.", Violation.BLAME),
    ("es", "Te exijo silencio.", Violation.AUTHORITY),
    ("fr", "Quel bordel ici.", Violation.VULGARITY),
    ("fr", "Tu es vraiment paresseux.", Violation.PERSONAL_ATTACK),
    ("fr", "Tu ne ranges jamais.", Violation.BLAME),
    ("fr", "Je t'interdis cela.", Violation.AUTHORITY),
    ("it", "Che cazzo di rumore.", Violation.VULGARITY),
    ("it", "Sei proprio maleducato.", Violation.PERSONAL_ATTACK),
    ("it", "Non pulisci mai.", Violation.BLAME),
    ("it", "Esigo che tu smetta.", Violation.AUTHORITY),
    ("nl", "Wat een kutzooi.", Violation.VULGARITY),
    ("nl", "Je bent gewoon lui.", Violation.PERSONAL_ATTACK),
    ("nl", "Je ruimt nooit op.", Violation.BLAME),
    ("nl", "Ik eis stilte.", Violation.AUTHORITY),
    ("pl", "Kurwa, znowu.", Violation.VULGARITY),
    ("pl", "Jesteś bardzo leniwy.", Violation.PERSONAL_ATTACK),
    ("pl", "Nigdy nie sprzątasz.", Violation.BLAME),
    ("pl", "Żądam ciszy.", Violation.AUTHORITY),
    ("pt", "Que merda de barulho.", Violation.VULGARITY),
    ("pt", "Você é muito preguiçoso.", Violation.PERSONAL_ATTACK),
    ("pt", "Nunca limpas.", Violation.BLAME),
    ("pt", "Exijo que pares.", Violation.AUTHORITY),
]


@pytest.mark.parametrize(
    ("locale", "text"), [(at, t) for at, texts in CLEAN.items() for t in texts]
)
def test_what_a_household_says_is_clean(locale: str, text: str) -> None:
    """Trash, shower, space, praise and tiredness are no violation, and not even a warning."""
    found = scan(text, locale)
    assert (found.violations, found.warnings, found.lexicon_pass) == ((), (), True)


@pytest.mark.parametrize(("locale", "text", "violation"), REFUSED)
def test_what_must_not_be_said_is_found(locale: str, text: str, violation: Violation) -> None:
    """Hidden behind stars, zero-width letters, case or curly quotes, and in eight languages."""
    found = scan(text, locale)
    assert (found.violations, found.lexicon_pass) == ((violation,), False)


def test_every_language_has_clean_texts_and_refused_ones() -> None:
    """No list goes untested in either direction."""
    assert CLEAN.keys() == LOCALES == {locale for locale, _, _ in REFUSED}


@pytest.mark.parametrize(
    ("locale", "text", "warned"),
    [
        ("en", "Yeah right, the kitchen cleans itself.", Warned.SARCASM),
        ("en", "Sorry to bother you, feel free to ignore this.", Warned.HEDGE),
        ("de", "Na toll, wieder kein Platz.", Warned.SARCASM),
        ("es", "Siento molestarte con esto.", Warned.HEDGE),
        ("fr", "Désolé de te déranger.", Warned.HEDGE),
        ("it", "Mille scuse per questo.", Warned.HEDGE),
        ("nl", "Sorry dat ik stoor.", Warned.HEDGE),
        ("pl", "No świetnie, znowu.", Warned.SARCASM),
        ("pt", "Desculpa incomodar.", Warned.HEDGE),
    ],
)
def test_doubtful_words_only_warn(locale: str, text: str, warned: Warned) -> None:
    """Sarcasm and hedging are stored with the text, they do not refuse it."""
    found = scan(text, locale)
    assert (found.violations, found.warnings, found.lexicon_pass) == ((), (warned,), True)


def test_a_list_is_never_used_for_another_language() -> None:
    """In French a retard is a delay, and stays one."""
    assert not scan("Le retard du train.", "fr").violations
    assert scan("Le retard du train.", "en").violations


def test_without_a_list_nothing_is_claimed() -> None:
    """A language without a list has lexicon_version none and no verdict."""
    found = scan("fuck", "fi")
    assert (found.lexicon_version, found.lexicon_pass, found.violations) == ("none", None, ())


@pytest.mark.parametrize("text", ["Scunthorpe", "shitake", "kursk", "classic", "Saskatchewan"])
def test_words_match_whole(text: str) -> None:
    """A term inside another word is not a hit."""
    for locale in LOCALES:
        assert not scan(text, locale).violations


@pytest.mark.parametrize("text", ["**Please** be quiet", "C# and 2*3", "* one\n* two", "#kitchen"])
def test_marks_are_not_masks(text: str) -> None:
    """Emphasis, lists and signs do not hide a word."""
    assert not scan(text, "en").violations


def test_the_halves_of_a_pair_have_to_stand_together() -> None:
    """Another word or a full stop between them ends the pair."""
    assert not scan("You are my friend, and lazy mornings are nice.", "en").violations
    assert not scan("You are not lazy.", "en").violations
    assert scan("You are just so lazy.", "en").violations


def test_days_and_numbers_are_known_by_their_names() -> None:
    """Week days of seven languages, small numbers of eight; None where we cannot tell."""
    assert days_in("w środę i Montag", "pl") == {"wednesday"}
    assert days_in("na segunda-feira", "pt") is None
    assert days_in("maanantaina", "fi") is None
    assert numbers_in("um zwei oder Viertel nach zehn", "de") == {2, 10, 15}
    assert numbers_in("kymmenen", "fi") == frozenset()


@given(st.text(max_size=80), st.sampled_from(sorted(LOCALES)))
def test_any_text_can_be_scanned(text: str, locale: str) -> None:
    """Never an error, and folding twice changes nothing."""
    assert scan(text, locale).lexicon_version == "1"
    assert fold(fold(text)) == fold(text)
