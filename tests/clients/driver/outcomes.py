"""Why a client was not checked, or why it failed before its first check."""

import shutil


class Skipped(Exception):
    """A tool or a registry is missing."""


class Failed(Exception):
    """A program of this suite cannot be built, or it did not end."""


def need(tools):
    for tool in tools:
        if not shutil.which(tool):
            raise Skipped(f"{tool} is not installed")
