# SPDX-License-Identifier: MIT
"""Tries every mutant of mutants.txt: kiln run --check on the SIMT harness must reject each of them.

usage: mutants.py RUN_SH KILN SOURCE_FOLDER [NAME ..]
"""

import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

KEYS = ("file", "find", "replace", "case", "why")
JOBS = 2
SECONDS_A_CASE = 120


class Mutant:
    def __init__(self, name):
        self.name = name
        self.file = self.find = self.replace = self.why = None
        self.cases = []

    def set(self, key, text):
        if key == "case":
            self.cases.append(text)
        elif getattr(self, key) is not None:
            raise ValueError(f"mutant {self.name}: {key} is given twice")
        else:
            setattr(self, key, text.replace("\\n", "\n"))

    def check(self):
        if None in (self.file, self.find, self.replace, self.why) or not self.cases:
            raise ValueError(f"mutant {self.name}: needs {', '.join(KEYS)}")


def read_mutants(path):
    """Paragraphs of `key: text`, each begun by `mutant: name`; # begins a comment line."""
    mutants = []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            line = line.rstrip("\n")
            if not line.strip() or line.startswith("#"):
                continue
            key, colon, text = line.partition(":")
            text = text[1:] if text.startswith(" ") else text
            if key == "mutant":
                mutants.append(Mutant(text))
            elif colon and key in KEYS and mutants:
                mutants[-1].set(key, text)
            else:
                raise ValueError(f"{path}:{number}: not understood: {line}")
    for mutant in mutants:
        mutant.check()
    return mutants


class Harness:
    def __init__(self, run_sh, kiln, source, folder):
        self.run_sh, self.kiln = os.path.abspath(run_sh), os.path.abspath(kiln)
        self.source, self.folder = source, folder

    def new_templates(self):
        """A folder with a fresh copy of templates/ and an empty cache."""
        folder = tempfile.mkdtemp(dir=self.folder)
        shutil.copytree(
            os.path.join(self.source, "templates"), os.path.join(folder, "templates")
        )
        return folder

    def run(self, folder, case):
        environment = dict(
            os.environ,
            KILN_TEMPLATE_DIR=folder,
            KILN_SIMT_CACHE=os.path.join(folder, "cache"),
        )
        command = [self.run_sh, self.kiln, "run", *case.split(), "--check"]
        try:
            done = subprocess.run(
                command,
                env=environment,
                cwd=self.source,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=SECONDS_A_CASE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None, f"{case}: still runs after {SECONDS_A_CASE} s"
        return done.returncode, done.stdout.decode("utf-8", "replace")

    def try_original(self, case):
        """None, or why the case says nothing about mutants."""
        folder = self.new_templates()
        code, output = self.run(folder, case)
        shutil.rmtree(folder)
        return None if code == 0 else f"fails without a mutation: {case}\n{output}"

    def try_mutant(self, mutant):
        """(None or what is wrong, what killed it)"""
        folder = self.new_templates()
        path = os.path.join(folder, mutant.file)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        found = text.count(mutant.find)
        if found != 1:
            return f"its text is {found} times in {mutant.file}: {mutant.find!r}", ""
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(mutant.find, mutant.replace))
        problem, killers = None, []
        for case in mutant.cases:
            code, output = self.run(folder, case)
            if code == 0:
                problem = f"survives: {case}"
                break
            # What does not compile proves nothing.
            if re.search(r"(?<!runtime )error: ", output):
                problem = f"does not compile:\n{output}"
                break
            killers.append(reason(output))
        shutil.rmtree(folder)
        return problem, "; ".join(killers)


def reason(output):
    """The line of a run's output that tells the fault."""
    lines = [
        line.strip()
        for line in output.splitlines()
        if line.strip() and "makecontext" not in line
    ]
    for pattern in (r"^simt: ", r"runtime error|AddressSanitizer", r"differ|expected"):
        for line in lines:
            if re.search(pattern, line):
                return line[-150:]
    return lines[-1][-150:] if lines else "no output"


def main(argv):
    if len(argv) < 4:
        sys.exit(__doc__)
    run_sh, kiln, source = argv[1:4]
    mutants = read_mutants(os.path.join(source, "tests/simt/mutants.txt"))
    if argv[4:]:
        mutants = [m for m in mutants if m.name in argv[4:]]
    cases = sorted({case for mutant in mutants for case in mutant.cases})
    problems = []
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kiln-mutants-") as folder:
        harness = Harness(run_sh, kiln, source, folder)
        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            problems += filter(None, pool.map(harness.try_original, cases))
            for mutant, (problem, killer) in zip(
                mutants, pool.map(harness.try_mutant, mutants)
            ):
                if problem:
                    problems.append(f"mutant {mutant.name}: {problem}")
                else:
                    print(f"killed {mutant.name}: {killer}", flush=True)
    for problem in problems:
        print(problem)
    seconds = time.monotonic() - start
    print(f"{len(cases)} cases, {len(mutants)} mutants, {len(problems)} problems, {seconds:.0f} s")
    return 1 if problems or not mutants else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
