"""Counts the checks of each kind of request, and says on stderr what failed."""

import sys
import traceback

SHOWN_MAX = 5


class Checks:
    """Those of one kind."""

    def __init__(self, kind):
        self.kind, self.passed, self.failed = kind, 0, 0

    def that(self, holds, what):
        if holds:
            self.passed += 1
            return True
        self.failed += 1
        if self.failed <= SHOWN_MAX:
            print(f"{self.kind}: {what[:400]}", file=sys.stderr)
        return False


async def run_kinds(kinds, target):
    """Runs every kind, one after the other, and prints its line. Whether all checks hold."""
    good = True
    for name, kind in kinds:
        checks = Checks(name)
        try:
            await kind(target, checks)
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            checks.that(False, f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})")
        if checks.passed + checks.failed:
            print(f"kind {name} {checks.passed} {checks.failed}", flush=True)
        good = good and checks.failed == 0
    print("done", flush=True)
    return good
