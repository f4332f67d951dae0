"""Reading Wikipedia dumps: memory and speed of `elmo tokenize` for dumps of several sizes, beside a full parser.

    python benchmarks/bench_wikipedia.py --megabytes 20 200

The dumps are generated: sentences of benchmarks/text between templates, tables, references, links and lists, which make
up about half of the markup. Every measurement is a process of its own; times are processor times and include the start
of Python. Prints a table, keeps it in results/.
"""

from __future__ import annotations

import argparse
import bz2
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from xml.sax.saxutils import escape

import mwparserfromhell

from elmo import provenance
from elmo.text.inputs.wikipedia import plain_text

HERE = Path(__file__).parent
COMMAND = """
import json, resource, sys
from elmo.commands import main
sys.argv = ["elmo", "tokenize", *sys.argv[1:]]
try:
    main()
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"peak_mb": used.ru_maxrss / 1024, "seconds": used.ru_utime + used.ru_stime}))
"""


def article(sentences: list[str], number: int) -> str:
    """A page's markup."""
    chosen = random.Random(number)
    text = [f"{{{{Infobox|name={number}|image=[[File:{number}.jpg]]|area={{{{convert|{number}|km2}}}}}}}}"]
    for _ in range(chosen.randint(1, 12)):
        paragraph = []
        for sentence in chosen.choices(sentences, k=chosen.randint(1, 6)):
            words = sentence.split(" ")
            place = chosen.randrange(len(words))
            words[place] = f"[[{words[place]} (topic)|{words[place]}]]"
            paragraph.append(
                " ".join(words) + chosen.choice(["", "<ref>{{cite|title=A book|year=1999|pages=1–20}}</ref>"])
            )
        text += [f"== Section {len(text)} ==", " ".join(paragraph), ""]
    text += [
        '{| class="wikitable"',
        *(f"|-\n| [[Item {row}]] || {{{{nts|{row}}}}} || 1{row}" for row in range(15)),
        "|}",
    ]
    text += [f"* [[Link {row}]], a list's line" for row in range(15)] + ["[[Category:Examples]]"]
    return "\n".join(text)


def write_dump(path: Path, num_bytes: int) -> None:
    """A bzip2 dump with so many bytes of XML."""
    sentences = (HERE / "text" / "wikipedia.txt").read_text(encoding="utf-8").splitlines()
    with bz2.open(path, "wt", encoding="utf-8", compresslevel=1) as file:
        size, number = file.write("<mediawiki>\n"), 0
        while size < num_bytes:
            number += 1
            markup = escape(article(sentences, number))
            size += file.write(
                f"<page><title>{number}</title><ns>0</ns><revision><text>{markup}</text></revision></page>\n"
            )
        file.write("</mediawiki>\n")


def measure(megabytes: int, folder: Path) -> dict[str, float]:
    """The command on a dump of this size."""
    dump = folder / f"{megabytes}-pages-articles.xml.bz2"
    write_dump(dump, megabytes << 20)
    command = [sys.executable, "-c", COMMAND, str(dump), "--untokenized", "-o", str(folder / "text.txt")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    used = json.loads(done.stdout.splitlines()[-1])
    text = (folder / "text.txt").stat().st_size / 2**20
    return {"xml_mb": megabytes, "text_mb": text, "mb_per_second": megabytes / used["seconds"], **used}


def beside_a_parser(num_pages: int = 200) -> float:
    """How many times as fast the markup is removed as by mwparserfromhell, in processor time."""
    sentences = (HERE / "text" / "wikipedia.txt").read_text(encoding="utf-8").splitlines()
    pages = [article(sentences, number) for number in range(num_pages)]
    seconds = []
    for remove in (plain_text, lambda markup: mwparserfromhell.parse(markup, skip_style_tags=True).strip_code()):
        started = time.process_time()
        for page in pages:
            remove(page)
        seconds.append(time.process_time() - started)
    return seconds[1] / seconds[0]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, nargs="+", default=[20, 200])
    sizes = parser.parse_args().megabytes
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(size, Path(folder)) for size in sizes]
    ratio = beside_a_parser()
    table = [
        "| XML, MB | text, MB | processor seconds | MB of XML per second | peak memory, MB |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    names = {"xml_mb": ".0f", "text_mb": ".1f", "seconds": ".1f", "mb_per_second": ".2f", "peak_mb": ".0f"}
    table += [f"| {' | '.join(format(row[name], form) for name, form in names.items())} |" for row in rows]
    table += ["", f"The markup is removed {ratio:.1f} times as fast as by mwparserfromhell."]
    report = provenance.Report(
        "wikipedia",
        title="Reading Wikipedia dumps",
        data={"rows": rows, "times_a_parser": ratio},
        markdown="\n".join(table),
    )
    provenance.write_report(report, HERE / "results", provenance=provenance.collect(seed=0))
    print("\n".join(table))


if __name__ == "__main__":
    main()
