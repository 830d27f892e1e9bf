"""Downloads and builds each language's clients in the scratch folder, once and on demand."""

import os
import re
import subprocess
import threading

from driver.outcomes import Failed, Skipped, need

TOOLS = {
    "python": ["python3"],
    "node": ["node", "npm"],
    "go": ["go"],
    "java": ["java", "javac", "mvn"],
}


class Languages:
    def __init__(self, scratch):
        self.scratch, self.outcomes = scratch, {}
        self.preparing = threading.Lock()

    def need(self, language):
        """Prepares a language if that has not been done; raises the reason if it cannot be used."""
        with self.preparing:
            if language not in self.outcomes:
                self.outcomes[language] = self.prepare(language)
        if self.outcomes[language]:
            raise self.outcomes[language]

    def command(self, language, words):
        """The command that runs a program, and its folder."""
        self.need(language)
        folder = self.scratch / language
        start = {
            "python": [str(self.scratch / "venv/bin/python"), *words],
            "node": ["node", *words],
            "go": [str(folder / "bin" / words[0]), *words[1:]],
            "java": ["java", "-cp", "lib/*:classes", *words],
        }
        return start[language], folder

    def prepare(self, language):
        try:
            need(TOOLS[language])
            getattr(self, language)(self.scratch / language)
        except (Skipped, Failed) as outcome:
            return outcome
        return None

    def python(self, folder):
        venv = self.scratch / "venv"
        self.do(folder, Skipped, "python3", "-m", "venv", str(venv))
        self.do(
            folder, Skipped, str(venv / "bin/pip"), "install", "--quiet", "-r", "requirements.txt"
        )

    def node(self, folder):
        cache = str(self.scratch / "npm-cache")
        self.do(folder, Skipped, "npm", "ci", "--no-audit", "--no-fund", "--cache", cache)

    def go(self, folder):
        self.do(folder, Skipped, "go", "mod", "download")
        self.do(folder, Failed, "go", "build", "-o", "bin/", "./...")

    def java(self, folder):
        local = f"-Dmaven.repo.local={self.scratch / 'maven'}"
        maven = ["mvn", "-B", "-q", local]
        for goal, to in [("copy-dependencies", "lib"), ("copy", "older")]:
            goal = [f"dependency:{goal}", f"-DoutputDirectory={to}"]
            self.do(folder, Skipped, *maven, *goal)
        sources = sorted(path.name for path in folder.glob("*.java"))
        self.do(folder, Failed, "javac", "-nowarn", "-d", "classes", "-cp", "lib/*", *sources)

    def do(self, folder, otherwise, *command):
        """Runs a step; if it fails, raises `otherwise` with the first error in its output."""
        modules = str(self.scratch / "go-modules")
        environment = dict(os.environ, GOMODCACHE=modules, GOFLAGS="-modcacherw")
        result = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True
        )
        if result.returncode != 0:
            output = re.sub(r"\x1b\[[0-9;]*m", "", result.stdout + result.stderr)
            lines = [line for line in output.splitlines() if line.strip()] or ["no output"]
            error = next((line for line in lines if "error" in line.lower()), lines[-1])
            step = " ".join([os.path.basename(command[0]), *command[1:3]])
            raise otherwise(f"{step}: {error.strip()[:200]}")
