"""What people who share a home complain about, in four languages; written for the demonstration."""

from __future__ import annotations

COMPLAINTS: dict[str, tuple[str, ...]] = {
    "en": (
        "You are always so loud at night! I cannot sleep, turn the damn music down.",
        "The kitchen is disgusting again. You never wash a single plate!",
        "Stop walking into my room without knocking, it drives me mad.",
        "Your friends were here all weekend again and nobody asked me!",
        "You promised to clean on Monday and of course nothing happened.",
        "You never answer my messages about the rent. It is so rude!",
    ),
    "de": (
        "Du bist nachts immer so laut! Ich kann nicht schlafen, mach endlich die Musik leiser.",
        "Die Küche ist schon wieder ekelhaft. Du spülst nie auch nur einen Teller!",
        "Hör auf, ohne zu klopfen in mein Zimmer zu kommen, das macht mich wahnsinnig.",
        "Deine Freunde waren wieder das ganze Wochenende hier, und mich hat keiner gefragt!",
        "Du wolltest am Montag putzen, und natürlich ist nichts passiert.",
        "Du antwortest nie auf meine Nachrichten wegen der Miete. Das ist so unhöflich!",
    ),
    "es": (
        "¡Siempre haces muchísimo ruido por la noche! No puedo dormir, baja la música de una vez.",
        "La cocina está asquerosa otra vez. ¡Nunca lavas ni un solo plato!",
        "Deja de entrar en mi habitación sin llamar, me vuelves loco.",
        "¡Tus amigos estuvieron aquí todo el fin de semana y nadie me preguntó!",
        "Prometiste limpiar el lunes y, claro, no pasó nada.",
        "Nunca contestas a mis mensajes sobre el alquiler. ¡Qué falta de respeto!",
    ),
    "fr": (
        "Tu fais toujours trop de bruit la nuit ! Je ne peux pas dormir, baisse enfin la musique.",
        "La cuisine est encore dégoûtante. Tu ne laves jamais une seule assiette !",
        "Arrête d'entrer dans ma chambre sans frapper, ça me rend fou.",
        "Tes amis étaient encore là tout le week-end et personne ne m'a demandé !",
        "Tu avais promis de nettoyer lundi et bien sûr rien n'a été fait.",
        "Tu ne réponds jamais à mes messages au sujet du loyer. C'est très impoli !",
    ),
}
