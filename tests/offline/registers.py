#!/usr/bin/env python3
"""Registers, spills, local memory and occupancy of the kernels, from offline compilers.

    registers.py CHOICES            prints the tables
    registers.py CHOICES --write    puts them into kernels/README.md
    registers.py CHOICES --check    fails if kernels/README.md tells something else

CHOICES is the program built from choices.c: it says which kernels, with which definitions, the
library runs on each device, so nothing of that is repeated here. --target NAME (several times)
leaves the others out; --problem does the same. GPU_MHA_TILE and the like reach the library and try
other shapes. --keep DIR keeps what was compiled.

Exit code: 0; 1 if a default kernel spills, does not compile, or the tables differ; 77 if no
compiler for any target is here. Missing compilers are named, and counted, at the end.
"""

import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile

import targets

HERE = os.path.dirname(os.path.abspath(__file__))
README = os.path.join(HERE, "..", "..", "kernels", "README.md")
BEGIN = "<!-- registers.py: begin -->\n"
END = "<!-- registers.py: end -->\n"
SHOWN = re.compile(r"(prefill|decode)-(\d+)(-f16)?$")
HELPERS = {"pack_key", "pack_value", "merge_splits"}


class Launch:
    """A line of launches.tsv; those of one target that compile to the same are one job."""

    def __init__(self, line, directory):
        (self.device, self.problem, self.plan, self.kernel, source, _items, group, local,
         self.options) = line.rstrip("\n").split("\t")
        self.source = os.path.join(directory, source)
        self.group = int(group)
        self.local_argument = int(local)

    def job(self):
        return (self.device, self.kernel, self.source, self.options, self.group,
                self.local_argument)


def read_launches(choices, directory, wanted):
    subprocess.run([choices, directory, *wanted], check=True)
    with open(os.path.join(directory, "launches.tsv"), encoding="utf-8") as file:
        return [Launch(line, directory) for line in file]


def compile_all(launches, found, directory):
    """{job: Result or an error text}"""
    jobs = {}
    for launch in launches:
        jobs.setdefault(launch.job(), launch)

    def compile_one(item):
        number, launch = item
        target = found[launch.device]
        try:
            return launch.job(), target.compile(launch, os.path.join(directory, f"job{number}"))
        except targets.CompileError as error:
            return launch.job(), error

    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", "2"))) as pool:
        return dict(pool.map(compile_one, enumerate(jobs.values())))


def head_and_type(problem):
    kind, head, half = SHOWN.match(problem).groups()
    return kind, int(head), "f16" if half else "f32"


def join_sorted(values):
    return ", ".join(str(value) for value in sorted(set(values)))


def rows_of(launches, results):
    """One row for kernels that differ in nothing that is shown: key -> problems."""
    rows = {}
    for launch in launches:
        result = results[launch.job()]
        if isinstance(result, targets.CompileError) or launch.kernel in HELPERS:
            continue
        kind, head, storage = head_and_type(launch.problem)
        key = (kind, head, launch.plan.split(" split")[0], launch.kernel, result.cells())
        rows.setdefault(key, []).append(storage)
    return rows


def table(target, launches, results):
    """The lines of one target."""
    lines = []
    for (kind, head, plan, kernel, cells), storages in rows_of(launches, results).items():
        lines.append(f"| {target.label} | {kind} {head}, {join_sorted(storages)} "
                     f"| `{kernel}`, {plan} | {' | '.join(cells)} |")
    helpers = [(launch.kernel, results[launch.job()]) for launch in launches
               if launch.kernel in HELPERS
               and not isinstance(results[launch.job()], targets.CompileError)]
    if helpers:
        names = ", ".join(f"`{name}`" for name in sorted({name for name, _ in helpers}))
        cells = targets.worst(result for _, result in helpers).cells()
        lines.append(f"| {target.label} | all of these, at most | {names} | {' | '.join(cells)} |")
    return lines


def text_of(found, launches, results):
    lines = ["Made by `tests/offline/registers.py`; what the columns mean, and what the figures",
             "are worth, is told in [tests/offline/README.md](../tests/offline/README.md).",
             "",
             "| target | problem, storage | kernel | group | registers | spilled bytes "
             "| stack bytes | local bytes | occupancy |",
             "|---|---|---|---|---|---|---|---|---|"]
    for target in found.values():
        lines += table(target, [l for l in launches if l.device == target.label], results)
    versions = sorted({version for target in found.values() for version in target.versions()})
    return "\n".join(lines + ["", "Compiled with " + "; ".join(versions) + ".", ""])


def complain(launches, results):
    """What must not be: a default kernel that does not compile or that spills."""
    wrong = []
    for launch in launches:
        result = results[launch.job()]
        where = f"{launch.device}: {launch.problem}, {launch.kernel}"
        if isinstance(result, targets.CompileError):
            wrong.append(f"{where}: {result}")
        elif result.spilled:
            wrong.append(f"{where}: spills {result.spilled} bytes ({launch.options})")
    return list(dict.fromkeys(wrong))


def replace_between(page, text):
    start, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    return page[:start] + "\n" + text + "\n" + page[end:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("choices")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--target", action="append")
    parser.add_argument("--problem", action="append")
    parser.add_argument("--keep")
    arguments = parser.parse_args()

    found, missing = targets.find(arguments.target)
    for label, why in missing.items():
        print(f"registers: SKIPPED {label}: {why}", file=sys.stderr)
    if not found:
        return 77
    with tempfile.TemporaryDirectory() as temporary:
        directory = arguments.keep or temporary
        os.makedirs(directory, exist_ok=True)
        launches = read_launches(arguments.choices, directory, list(found))
        launches = [l for l in launches if SHOWN.match(l.problem)
                    and (not arguments.problem or l.problem in arguments.problem)]
        results = compile_all(launches, found, directory)
    text = text_of(found, launches, results)
    wrong = complain(launches, results)

    if arguments.write or arguments.check:
        if missing:
            wrong.append("the tables need every target; install what is missing (setup.sh)")
        with open(README, encoding="utf-8") as file:
            page = file.read()
        new = replace_between(page, text)
        if arguments.check and new != page:
            wrong.append("kernels/README.md tells something else; run with --write")
        if arguments.write and not missing:
            with open(README, "w", encoding="utf-8") as file:
                file.write(new)
    else:
        print(text)
    for line in wrong:
        print(f"registers: {line}", file=sys.stderr)
    print(f"registers: {len(results)} kernels for {len(found)} targets, {len(missing)} targets "
          f"skipped, {len(wrong)} complaints", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    if shutil.which("true") is None:
        sys.exit("registers: no PATH")
    sys.exit(main())
