"""What the sandbox can say calmly, in eight languages: our own sentences, without facts or times.

For each language: how a message opens, how it closes, and for each topic at least three pairs of
what is felt and what is wished.
"""

# ruff: noqa: E501 - a sentence is read whole, on one line

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Phrases:
    """The sentences of one language."""

    opens: tuple[str, ...]
    closes: tuple[str, ...]
    topics: dict[str, tuple[str, ...]]


PHRASES: Final = {
    "en": Phrases(
        opens=(
            "I would like to share something that has been on my mind.",
            "There is a small thing at home that I would like to talk about.",
            "I hope it is alright that I bring this up.",
        ),
        closes=(
            "Thank you for reading this.",
            "Thank you, it means a lot to me.",
            "I would be glad to hear how this sounds to you.",
        ),
        topics={
            "noise": (
                "When it gets loud, I find it hard to rest. It would help me if we could keep things a little quieter.",
                "The noise at home has been difficult for me lately. Could we find a way to keep the sound lower?",
                "I notice that I sleep badly when there is a lot of noise. I would be grateful for a bit more quiet.",
            ),
            "cleanliness": (
                "I feel more at ease when the shared rooms are tidy. Could we look together at how to keep them clean?",
                "The state of the shared space has been weighing on me. It would help me if we tidied up after using it.",
                "I enjoy our home most when the kitchen and the other rooms are clean. Would it be possible to share that a little more evenly?",
            ),
            "privacy": (
                "My own space matters a lot to me, and I relax when I know it is respected. It would help me to be asked first.",
                "I feel uneasy when my privacy at home is uncertain. Could we agree to knock and ask before coming in?",
                "Having a place of my own helps me to recover. I would appreciate a little more care around my room and my things.",
            ),
            "guests": (
                "When visitors come, I sometimes feel unprepared. It would help me to hear about guests a little ahead.",
                "I like that people feel welcome here, and I also need some calm. Could we talk about how we handle visits?",
                "Having many guests at home leaves me tired. I would be grateful if we could agree on visits together.",
            ),
            "schedule": (
                "I feel calmer when I know what to expect at home. It would help me if we could agree on a plan together.",
                "The way our plans change has been hard for me to follow. Could we find a rhythm that works for both of us?",
                "It helps me a lot when our routines fit together. Would it be possible to look at the schedule together?",
            ),
            "communication": (
                "I feel a bit lost when we do not talk about things. It would help me if we could find a good way to stay in touch.",
                "It matters to me that we understand each other well. Could we take a moment to talk this through?",
                "Sometimes messages between us get lost, and I feel left out. I would be glad if we could share things more openly.",
            ),
            "other": (
                "Something at home has been bothering me, and I would like us to feel comfortable. Could we talk about it together?",
                "I have been feeling a little tense about how things are going. It would help me if we could look at it together.",
                "I would like our home to feel good for both of us. Would it be possible to find a solution together?",
            ),
        },
    ),
    "es": Phrases(
        opens=(
            "Me gustaría compartir algo que me ha estado rondando.",
            "Hay un pequeño asunto en casa del que me gustaría hablar.",
            "Espero que esté bien que comente esto.",
        ),
        closes=(
            "Muchas gracias por leer este mensaje.",
            "Muchas gracias, significa mucho para mí.",
            "Me encantaría saber qué te parece.",
        ),
        topics={
            "noise": (
                "Cuando hay mucho ruido me cuesta descansar. Me ayudaría que pudiéramos mantener la casa un poco más tranquila.",
                "El ruido en casa me está resultando difícil últimamente. ¿Podríamos encontrar una manera de bajar un poco el volumen?",
                "Noto que duermo mal cuando hay mucho ruido. Agradecería mucho un poco más de silencio.",
            ),
            "cleanliness": (
                "Me siento más a gusto cuando los espacios comunes están ordenados. ¿Podríamos ver juntos cómo mantenerlos limpios?",
                "El estado de los espacios comunes me está pesando un poco. Me ayudaría que recogiéramos después de usarlos.",
                "Disfruto más de nuestra casa cuando la cocina y las habitaciones están limpias. ¿Sería posible repartirlo de forma más equilibrada?",
            ),
            "privacy": (
                "Mi espacio propio es importante para mí y me relajo cuando se respeta. Me ayudaría que se me preguntara antes.",
                "Me siento incómodo cuando mi intimidad en casa no está clara. ¿Podríamos acordar llamar a la puerta antes de entrar?",
                "Tener un lugar propio me ayuda a recuperarme. Agradecería un poco más de cuidado con mi habitación y mis cosas.",
            ),
            "guests": (
                "Cuando vienen visitas, a veces me siento poco preparado. Me ayudaría saberlo con un poco de antelación.",
                "Me gusta que la gente se sienta bienvenida y también necesito algo de calma. ¿Podríamos hablar de cómo organizamos las visitas?",
                "Tener muchos invitados en casa me deja cansado. Agradecería que pudiéramos acordar las visitas juntos.",
            ),
            "schedule": (
                "Me siento más tranquilo cuando sé qué esperar en casa. Me ayudaría que pudiéramos acordar un plan juntos.",
                "Me cuesta seguir los cambios en nuestros planes. ¿Podríamos encontrar un ritmo que nos venga bien a los dos?",
                "Me ayuda mucho que nuestras rutinas encajen. ¿Sería posible revisar juntos los horarios?",
            ),
            "communication": (
                "Me siento un poco perdido cuando no hablamos de las cosas. Me ayudaría encontrar una buena manera de mantenernos en contacto.",
                "Para mí es importante que nos entendamos bien. ¿Podríamos tomarnos un momento para hablarlo?",
                "A veces los mensajes entre nosotros se pierden y me siento excluido. Me alegraría que pudiéramos compartir las cosas con más confianza.",
            ),
            "other": (
                "Hay algo en casa que me preocupa y me gustaría que estuviéramos a gusto. ¿Podríamos hablarlo juntos?",
                "Últimamente siento un poco de tensión por cómo van las cosas. Me ayudaría que pudiéramos verlo juntos.",
                "Me gustaría que nuestra casa fuera agradable para los dos. ¿Sería posible buscar juntos una solución?",
            ),
        },
    ),
    "de": Phrases(
        opens=(
            "Ich möchte gern etwas ansprechen, das mich beschäftigt.",
            "Es gibt eine kleine Sache bei uns zu Hause, über die ich gern sprechen würde.",
            "Ich hoffe, es ist in Ordnung, dass ich das anspreche.",
        ),
        closes=(
            "Vielen Dank fürs Lesen dieser Nachricht.",
            "Vielen Dank, das bedeutet mir viel.",
            "Ich freue mich darauf, deine Sicht dazu zu hören.",
        ),
        topics={
            "noise": (
                "Wenn es laut wird, fällt es mir schwer, zur Ruhe zu kommen. Es würde mir helfen, wenn es etwas leiser sein könnte.",
                "Der Lärm zu Hause ist für mich in letzter Zeit schwierig. Könnten wir gemeinsam einen Weg finden, es leiser zu halten?",
                "Ich merke, dass ich bei viel Lärm schlecht schlafe. Über etwas mehr Ruhe wäre ich sehr dankbar.",
            ),
            "cleanliness": (
                "Ich fühle mich wohler, wenn die gemeinsamen Räume ordentlich sind. Könnten wir zusammen schauen, wie wir sie sauber halten?",
                "Der Zustand der gemeinsamen Räume belastet mich ein wenig. Es würde mir helfen, wenn wir nach dem Benutzen aufräumen.",
                "Ich bin am liebsten in unserer Wohnung, wenn Küche und Zimmer sauber sind. Wäre es möglich, das etwas gleichmäßiger aufzuteilen?",
            ),
            "privacy": (
                "Mein eigener Bereich ist mir wichtig, und ich entspanne mich, wenn er geachtet wird. Es würde mir helfen, vorher gefragt zu werden.",
                "Ich fühle mich unwohl, wenn meine Privatsphäre zu Hause unklar ist. Könnten wir vereinbaren, vor dem Eintreten anzuklopfen?",
                "Ein eigener Rückzugsort hilft mir, mich zu erholen. Über etwas mehr Rücksicht auf mein Zimmer und meine Sachen würde ich mich freuen.",
            ),
            "guests": (
                "Wenn Besuch kommt, fühle ich mich manchmal unvorbereitet. Es würde mir helfen, etwas früher davon zu hören.",
                "Ich finde es schön, dass Gäste hier willkommen sind, und brauche auch etwas Ruhe. Könnten wir darüber sprechen, wie wir Besuche handhaben?",
                "Viel Besuch zu Hause macht mich müde. Ich wäre dankbar, wenn wir Besuche gemeinsam absprechen könnten.",
            ),
            "schedule": (
                "Ich bin ruhiger, wenn ich weiß, was mich zu Hause erwartet. Es würde mir helfen, wenn wir gemeinsam einen Plan machen könnten.",
                "Es fällt mir schwer, den Änderungen unserer Pläne zu folgen. Könnten wir einen Rhythmus finden, der für uns beide passt?",
                "Es hilft mir sehr, wenn unsere Abläufe zusammenpassen. Wäre es möglich, den Zeitplan gemeinsam anzusehen?",
            ),
            "communication": (
                "Ich fühle mich etwas verloren, wenn wir nicht über die Dinge sprechen. Es würde mir helfen, einen guten Weg für den Austausch zu finden.",
                "Mir ist wichtig, dass wir uns gut verstehen. Könnten wir uns einen Moment nehmen, um darüber zu sprechen?",
                "Manchmal gehen Nachrichten zwischen uns verloren, und ich fühle mich außen vor. Ich würde mich freuen, wenn wir offener miteinander sprechen.",
            ),
            "other": (
                "Etwas zu Hause beschäftigt mich, und ich möchte, dass wir uns beide wohlfühlen. Könnten wir gemeinsam darüber sprechen?",
                "Ich bin in letzter Zeit etwas angespannt, wie es bei uns läuft. Es würde mir helfen, wenn wir uns das zusammen ansehen.",
                "Ich wünsche mir, dass sich unser Zuhause für uns beide gut anfühlt. Wäre es möglich, gemeinsam eine Lösung zu finden?",
            ),
        },
    ),
    "fr": Phrases(
        opens=(
            "J'aimerais partager quelque chose qui me préoccupe.",
            "Il y a un petit sujet à la maison dont j'aimerais parler.",
            "J'espère que cela ne dérange pas que j'aborde ce sujet.",
        ),
        closes=(
            "Merci beaucoup d'avoir lu ce message.",
            "Merci beaucoup, cela compte pour moi.",
            "Je serais heureux de savoir ce que tu en penses.",
        ),
        topics={
            "noise": (
                "Quand il y a beaucoup de bruit, j'ai du mal à me reposer. Cela m'aiderait si la maison pouvait être un peu plus calme.",
                "Le bruit à la maison est difficile pour moi en ce moment. Pourrions-nous trouver un moyen de baisser un peu le son ?",
                "Je remarque que je dors mal quand il y a du bruit. Je serais reconnaissant d'avoir un peu plus de calme.",
            ),
            "cleanliness": (
                "Je me sens mieux quand les pièces communes sont rangées. Pourrions-nous voir ensemble comment les garder propres ?",
                "L'état des espaces communs me pèse un peu. Cela m'aiderait si nous rangions après les avoir utilisés.",
                "J'apprécie davantage notre logement quand la cuisine et les pièces sont propres. Serait-il possible de mieux répartir ces tâches ?",
            ),
            "privacy": (
                "Mon espace personnel compte beaucoup pour moi, et je me détends quand il est respecté. Cela m'aiderait qu'on me demande avant.",
                "Je suis mal à l'aise quand mon intimité à la maison n'est pas claire. Pourrions-nous convenir de frapper avant d'entrer ?",
                "Avoir un endroit à moi m'aide à récupérer. J'apprécierais un peu plus d'attention pour ma chambre et mes affaires.",
            ),
            "guests": (
                "Quand il y a des visites, je me sens parfois pris au dépourvu. Cela m'aiderait d'en être informé un peu avant.",
                "J'aime que les gens se sentent bien ici, et j'ai aussi besoin de calme. Pourrions-nous parler de l'organisation des visites ?",
                "Recevoir beaucoup d'invités à la maison me fatigue. Je serais reconnaissant si nous pouvions en convenir ensemble.",
            ),
            "schedule": (
                "Je suis plus serein quand je sais à quoi m'attendre à la maison. Cela m'aiderait si nous pouvions convenir d'un plan ensemble.",
                "J'ai du mal à suivre les changements dans nos projets. Pourrions-nous trouver un rythme qui nous convienne à tous les deux ?",
                "Cela m'aide beaucoup quand nos habitudes s'accordent. Serait-il possible de regarder ensemble le planning ?",
            ),
            "communication": (
                "Je me sens un peu perdu quand nous ne parlons pas des choses. Cela m'aiderait de trouver une bonne façon de rester en contact.",
                "Il est important pour moi que nous nous comprenions bien. Pourrions-nous prendre un moment pour en parler ?",
                "Parfois, les messages entre nous se perdent et je me sens à l'écart. Je serais heureux que nous échangions plus ouvertement.",
            ),
            "other": (
                "Quelque chose à la maison me préoccupe, et j'aimerais que nous soyons à l'aise. Pourrions-nous en parler ensemble ?",
                "Je me sens un peu tendu par la situation ces derniers temps. Cela m'aiderait si nous pouvions regarder cela ensemble.",
                "J'aimerais que notre maison soit agréable pour nous deux. Serait-il possible de chercher une solution ensemble ?",
            ),
        },
    ),
    "pt": Phrases(
        opens=(
            "Gostaria de partilhar uma coisa que me tem preocupado.",
            "Há um pequeno assunto em casa sobre o qual gostaria de conversar.",
            "Espero que não haja problema em eu falar sobre isto.",
        ),
        closes=(
            "Muito obrigado por ler esta mensagem.",
            "Muito obrigado, isso significa muito para mim.",
            "Ficaria feliz em saber a tua opinião sobre isto.",
        ),
        topics={
            "noise": (
                "Quando há muito barulho, tenho dificuldade em descansar. Ajudava-me se pudéssemos manter a casa um pouco mais calma.",
                "O barulho em casa tem sido difícil para mim ultimamente. Poderíamos encontrar uma forma de baixar um pouco o som?",
                "Reparo que durmo mal quando há muito barulho. Ficaria muito grato por um pouco mais de silêncio.",
            ),
            "cleanliness": (
                "Sinto-me melhor quando os espaços comuns estão arrumados. Será que conseguimos ver juntos como não deixar que fiquem sujos?",
                "O estado dos espaços comuns tem pesado um pouco em mim. Ajudava-me se arrumássemos depois de os usar.",
                "Gosto mais da nossa casa quando a cozinha e os quartos estão limpos. Seria possível dividir isso de forma mais equilibrada?",
            ),
            "privacy": (
                "O meu espaço é importante para mim e fico mais tranquilo quando é respeitado. Ajudava-me que me perguntassem antes.",
                "Sinto-me desconfortável quando a minha privacidade em casa não é clara. Poderíamos combinar bater à porta antes de entrar?",
                "Ter um lugar só meu ajuda-me a recuperar. Agradecia um pouco mais de cuidado com o meu quarto e as minhas coisas.",
            ),
            "guests": (
                "Quando há visitas, às vezes sinto-me pouco preparado. Ajudava-me saber com um pouco de antecedência.",
                "Gosto que as pessoas se sintam bem-vindas e também preciso de alguma calma. Será que podemos conversar sobre como lidamos com as visitas em casa?",
                "Ter muitos convidados em casa deixa-me cansado. Ficaria grato se pudéssemos combinar as visitas juntos.",
            ),
            "schedule": (
                "Fico mais tranquilo quando sei o que esperar em casa. Ajudava-me se pudéssemos combinar um plano juntos.",
                "Tem sido difícil para mim acompanhar as mudanças nos nossos planos. Poderíamos encontrar um ritmo que funcione para os dois?",
                "Ajuda-me muito quando as nossas rotinas se conjugam. Seria possível vermos juntos os horários?",
            ),
            "communication": (
                "Sinto-me um pouco perdido quando não conversamos sobre as coisas. Ajudava-me encontrar uma boa forma de mantermos o contacto.",
                "Para mim é importante que nos entendamos bem. Poderíamos tirar um momento para conversar sobre isto?",
                "Às vezes as mensagens entre nós perdem-se e sinto-me de fora. Ficaria feliz se pudéssemos partilhar as coisas mais abertamente.",
            ),
            "other": (
                "Há uma coisa em casa que me preocupa e gostaria que estivéssemos à vontade. Poderíamos conversar sobre isso juntos?",
                "Tenho sentido alguma tensão com a forma como as coisas estão. Ajudava-me se pudéssemos ver isso juntos.",
                "Gostaria que a nossa casa fosse agradável para os dois. Seria possível procurarmos juntos uma solução?",
            ),
        },
    ),
    "it": Phrases(
        opens=(
            "Vorrei condividere una cosa che mi sta a cuore.",
            "C'è una piccola questione in casa di cui vorrei parlare.",
            "Spero che vada bene se affronto questo argomento.",
        ),
        closes=(
            "Grazie mille per aver letto questo messaggio.",
            "Grazie mille, per me significa molto.",
            "Sarei felice di sapere che cosa ne pensi.",
        ),
        topics={
            "noise": (
                "Quando c'è molto rumore faccio fatica a riposare. Mi aiuterebbe se potessimo tenere la casa un po' più tranquilla.",
                "Il rumore in casa per me è difficile in questo periodo. Potremmo trovare un modo per abbassare un po' il volume?",
                "Mi accorgo che dormo male quando c'è molto rumore. Sarei grato di avere un po' più di silenzio.",
            ),
            "cleanliness": (
                "Mi sento più a mio agio quando gli spazi comuni sono in ordine. Potremmo vedere insieme come tenerli puliti?",
                "Lo stato degli spazi comuni mi pesa un po'. Mi aiuterebbe se riordinassimo dopo averli usati.",
                "Apprezzo di più la nostra casa quando la cucina e le stanze sono pulite. Sarebbe possibile dividerci meglio queste cose?",
            ),
            "privacy": (
                "Il mio spazio è importante per me e mi rilasso quando viene rispettato. Mi aiuterebbe se mi venisse chiesto prima.",
                "Mi sento a disagio quando la mia privacy in casa non è chiara. Potremmo accordarci per bussare prima di entrare?",
                "Avere un posto tutto mio mi aiuta a recuperare. Apprezzerei un po' più di attenzione per la mia stanza e le mie cose.",
            ),
            "guests": (
                "Quando arrivano ospiti, a volte mi sento impreparato. Mi aiuterebbe saperlo con un po' di anticipo.",
                "Mi piace che le persone si sentano benvenute e ho anche bisogno di calma. Potremmo parlare di come gestiamo le visite?",
                "Avere molti ospiti in casa mi lascia stanco. Sarei grato se potessimo concordare le visite insieme.",
            ),
            "schedule": (
                "Mi sento più sereno quando so che cosa aspettarmi in casa. Mi aiuterebbe se potessimo concordare un piano insieme.",
                "Faccio fatica a seguire i cambiamenti nei nostri programmi. Potremmo trovare un ritmo che vada bene per entrambi?",
                "Mi aiuta molto quando le nostre abitudini si accordano. Sarebbe possibile guardare insieme gli orari?",
            ),
            "communication": (
                "Mi sento un po' perso quando non parliamo delle cose. Mi aiuterebbe trovare un buon modo per restare in contatto.",
                "Per me è importante che ci capiamo bene. Potremmo prenderci un momento per parlarne?",
                "A volte i messaggi tra noi si perdono e mi sento escluso. Sarei felice se potessimo condividere le cose più apertamente.",
            ),
            "other": (
                "C'è qualcosa in casa che mi preoccupa e vorrei che stessimo bene. Potremmo parlarne insieme?",
                "Ultimamente sono un po' teso per come vanno le cose. Mi aiuterebbe se potessimo guardarci insieme.",
                "Vorrei che la nostra casa fosse piacevole per entrambi. Sarebbe possibile cercare insieme una soluzione?",
            ),
        },
    ),
    "nl": Phrases(
        opens=(
            "Ik wil graag iets delen dat me bezighoudt.",
            "Er is iets kleins in huis waar ik graag over wil praten.",
            "Ik hoop dat het goed is dat ik dit ter sprake breng.",
        ),
        closes=(
            "Dank je wel voor het lezen van dit bericht.",
            "Dank je wel, het betekent veel voor mij.",
            "Ik hoor graag hoe jij hierover denkt.",
        ),
        topics={
            "noise": (
                "Als het luid wordt, vind ik het moeilijk om tot rust te komen. Het zou mij helpen als het wat stiller kan zijn.",
                "Het lawaai in huis is de laatste tijd lastig voor mij. Kunnen we samen een manier vinden om het geluid zachter te houden?",
                "Ik merk dat ik slecht slaap als er veel lawaai is. Ik zou dankbaar zijn voor wat meer rust.",
            ),
            "cleanliness": (
                "Ik voel me prettiger als de gedeelde ruimtes netjes zijn. Kunnen we samen kijken hoe we ze schoon houden?",
                "De staat van de gedeelde ruimtes weegt een beetje op mij. Het zou mij helpen als we na gebruik opruimen.",
                "Ik geniet het meest van ons huis als de keuken en de kamers schoon zijn. Zou het mogelijk zijn om dat wat eerlijker te verdelen?",
            ),
            "privacy": (
                "Mijn eigen ruimte is belangrijk voor mij en ik ontspan als die wordt gerespecteerd. Het zou mij helpen als er eerst wordt gevraagd.",
                "Ik voel me ongemakkelijk als mijn privacy in huis onduidelijk is. Kunnen we afspreken om te kloppen voor het binnenkomen?",
                "Een eigen plek helpt mij om bij te komen. Ik zou wat meer zorg voor mijn kamer en mijn spullen waarderen.",
            ),
            "guests": (
                "Als er bezoek komt, voel ik me soms onvoorbereid. Het zou mij helpen om het iets eerder te horen.",
                "Ik vind het fijn dat mensen hier welkom zijn en ik heb ook rust nodig. Kunnen we bespreken hoe we met bezoek omgaan?",
                "Veel gasten in huis maken mij moe. Ik zou dankbaar zijn als we bezoek samen kunnen afspreken.",
            ),
            "schedule": (
                "Ik ben rustiger als ik weet wat ik thuis kan verwachten. Het zou mij helpen als we samen een plan kunnen maken.",
                "Ik vind het moeilijk om de veranderingen in onze plannen te volgen. Kunnen we een ritme vinden dat voor ons allebei werkt?",
                "Het helpt mij erg als onze gewoontes bij elkaar passen. Zou het mogelijk zijn om samen naar het schema te kijken?",
            ),
            "communication": (
                "Ik voel me een beetje verloren als we niet over dingen praten. Het zou mij helpen om een goede manier te vinden om contact te houden.",
                "Het is belangrijk voor mij dat we elkaar goed begrijpen. Kunnen we even de tijd nemen om dit te bespreken?",
                "Soms raken berichten tussen ons verloren en voel ik me buitengesloten. Ik zou het fijn vinden als we dingen opener kunnen delen.",
            ),
            "other": (
                "Er is iets in huis dat me bezighoudt en ik wil graag dat wij ons prettig voelen. Kunnen we er samen over praten?",
                "Ik voel de laatste tijd wat spanning over hoe het gaat. Het zou mij helpen als we er samen naar kunnen kijken.",
                "Ik zou graag willen dat ons huis voor ons allebei fijn is. Zou het mogelijk zijn om samen een oplossing te vinden?",
            ),
        },
    ),
    "pl": Phrases(
        opens=(
            "Chciałbym podzielić się czymś, co mnie zajmuje.",
            "Jest w domu drobna sprawa, o której chciałbym porozmawiać.",
            "Mam nadzieję, że mogę o tym wspomnieć.",
        ),
        closes=(
            "Bardzo dziękuję za przeczytanie tej wiadomości.",
            "Bardzo dziękuję, to dla mnie wiele znaczy.",
            "Chętnie usłyszę, co o tym myślisz.",
        ),
        topics={
            "noise": (
                "Kiedy robi się głośno, trudno mi odpocząć. Pomogłoby mi, gdyby w domu było trochę ciszej.",
                "Hałas w domu jest dla mnie ostatnio trudny. Czy moglibyśmy znaleźć sposób, żeby było trochę ciszej?",
                "Zauważam, że źle śpię, kiedy jest dużo hałasu. Będę wdzięczny za odrobinę więcej ciszy.",
            ),
            "cleanliness": (
                "Czuję się lepiej, kiedy wspólne pomieszczenia są uporządkowane. Czy moglibyśmy razem zastanowić się, jak utrzymać je w czystości?",
                "Stan wspólnych pomieszczeń trochę mi ciąży. Pomogłoby mi, gdybyśmy sprzątali po skorzystaniu z nich.",
                "Najbardziej lubię nasz dom, kiedy kuchnia i pokoje są czyste. Czy byłoby możliwe podzielić to trochę równiej?",
            ),
            "privacy": (
                "Moja przestrzeń jest dla mnie ważna i odpoczywam, kiedy jest szanowana. Pomogłoby mi, gdyby najpierw mnie zapytano.",
                "Czuję się nieswojo, kiedy moja prywatność w domu jest niepewna. Czy moglibyśmy umówić się na pukanie przed wejściem?",
                "Własne miejsce pomaga mi dojść do siebie. Będę wdzięczny za trochę więcej troski o mój pokój i moje rzeczy.",
            ),
            "guests": (
                "Kiedy przychodzą goście, czasem czuję się nieprzygotowany. Pomogłoby mi, gdybym wiedział o tym trochę wcześniej.",
                "Cieszę się, że ludzie czują się tu mile widziani, a potrzebuję też spokoju. Czy moglibyśmy porozmawiać o odwiedzinach?",
                "Duża liczba gości w domu mnie męczy. Będę wdzięczny, jeśli będziemy mogli razem ustalać odwiedziny.",
            ),
            "schedule": (
                "Jestem spokojniejszy, kiedy wiem, czego spodziewać się w domu. Pomogłoby mi, gdybyśmy mogli razem ustalić plan.",
                "Trudno mi nadążyć za zmianami w naszych planach. Czy moglibyśmy znaleźć rytm, który pasuje nam obojgu?",
                "Bardzo mi pomaga, kiedy nasze zwyczaje do siebie pasują. Czy byłoby możliwe spojrzeć razem na nasz plan?",
            ),
            "communication": (
                "Czuję się trochę zagubiony, kiedy nie rozmawiamy o różnych sprawach. Pomogłoby mi, gdybyśmy znaleźli dobry sposób na kontakt.",
                "Zależy mi na tym, żebyśmy dobrze się rozumieli. Czy moglibyśmy znaleźć chwilę, żeby o tym porozmawiać?",
                "Czasem wiadomości między nami giną i czuję się pominięty. Ucieszę się, jeśli będziemy rozmawiać bardziej otwarcie.",
            ),
            "other": (
                "Coś w domu mnie niepokoi i chciałbym, żebyśmy czuli się dobrze. Czy moglibyśmy o tym razem porozmawiać?",
                "Ostatnio czuję trochę napięcia w związku z tym, jak jest. Pomogłoby mi, gdybyśmy mogli razem się temu przyjrzeć.",
                "Chciałbym, żeby nasz dom był przyjemny dla nas obojga. Czy byłoby możliwe znaleźć razem rozwiązanie?",
            ),
        },
    ),
}
