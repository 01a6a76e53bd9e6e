// Counts the checks of each kind of request, and says on stderr what failed.

const SHOWN_MAX = 5;

export class Checks {
  constructor(kind) {
    Object.assign(this, { kind, passed: 0, failed: 0 });
  }

  that(holds, what) {
    if (holds) {
      this.passed += 1;
      return true;
    }
    this.failed += 1;
    if (this.failed <= SHOWN_MAX) console.error(`${this.kind}: ${what}`.slice(0, 400));
    return false;
  }
}

/// Runs every kind, one after the other, and prints its line. Whether all checks hold.
export async function runKinds(kinds, target) {
  let good = true;
  for (const [name, kind] of Object.entries(kinds)) {
    const checks = new Checks(name);
    // An error that nobody waits for would end the program of a user, too.
    const uncaught = (error) => checks.that(false, `uncaught: ${error.stack}`);
    process.on("uncaughtException", uncaught);
    try {
      await kind(target, checks);
    } catch (error) {
      checks.that(false, String(error.stack));
    }
    process.off("uncaughtException", uncaught);
    if (checks.passed + checks.failed > 0) console.log(`kind ${name} ${checks.passed} ${checks.failed}`);
    good &&= checks.failed === 0;
  }
  console.log("done");
  return good;
}
