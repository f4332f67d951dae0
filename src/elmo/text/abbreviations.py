"""Abbreviations of written English, for the tokenizer and for the sentence splitter, and German ordinals.

Left out: other languages' abbreviations, and those of single trades (law, chemistry).
"""


def word_set(words: str) -> frozenset[str]:
    """The words of a string, for quick look-up."""
    return frozenset(words.split())


TITLES = word_set("Mr Mrs Ms Messrs Mme Mlle Dr Prof St Mt Ft Rev Hon Gen Col Lt Maj Capt Sgt Cpl Adm Gov Sen Rep Pres")
"""Stand before a name, so that the capital letter after them starts no sentence."""

NUMBERED = word_set("No Nos Vol vol Fig fig Ch ch Sec sec Art art Eq eq p pp c ca")
"""Stand before a number."""

DATES = word_set("Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Mon Tue Tues Wed Thu Thur Thurs Fri Sat Sun")
"""Months and days of the week."""

CITING = word_set("cf vs v viz approx esp incl op cit") | {"i.e", "e.g"}
"""Stand inside a sentence, hardly ever at its end."""

CLOSING = word_set("etc al Jr Sr Esq Inc Ltd Co Corp Bros Dept Univ Ave Blvd Rd ed eds")
"""May stand inside a sentence or at its end; the next word decides."""

WITH_PERIOD = word_set(
    "Mr. Mrs. Ms. Messrs. Mme. Mlle. Dr. Prof. St. Mt. Ft. Rev. Hon. Gen. Col. Lt. Maj. Capt. Sgt. Adm. Gov. Sen. "
    "Rep. Jr. Sr. Esq. Inc. Ltd. Co. Corp. Bros. Dept. Univ. Ave. Blvd. No. Nos. Vol. vol. pp. ed. eds. cf. vs. etc. "
    "Jan. Feb. Mar. Apr. Aug. Sept. Oct. Nov. Dec."
)
"""The words that keep their period in the text our models are trained on; every other word loses it."""

GERMAN_NUMBERED = word_set(
    "Januar Jänner Februar Feber März Mai Juni Juli Oktober Dezember Jahrhundert Jahrhunderts Jahrtausend Jahrtausends "
    "Lebensjahr Geburtstag Weltkrieg Kapitel Auflage Klasse Stock Platz Mal"
)
"""Stand after an ordinal number, which German writes with a period."""

SHARED_MONTHS = word_set("April August September November")
"""The months that English and German spell alike."""

GERMAN_BEFORE_ORDINALS = word_set("im vom zum zur beim der dem den des als")
"""Stand before a number in German, and hardly ever before the last word of a sentence in other languages."""

GERMAN_BEFORE_DATES = word_set("am bis ab seit und")
"""Stand before a date in German, but mean something else in other languages."""
