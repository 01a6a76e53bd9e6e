import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;

/** Counts the checks of each kind of request, and says on stderr what failed. */
final class Tally {
    private static final int SHOWN_MAX = 5;

    private final String kind;
    private final AtomicInteger passed = new AtomicInteger();
    private final AtomicInteger failed = new AtomicInteger();

    private Tally(String kind) {
        this.kind = kind;
    }

    /** What sends the requests of a kind. */
    interface Kind {
        void run(Tally checks) throws Exception;
    }

    boolean that(boolean holds, String what) {
        if (holds) {
            passed.incrementAndGet();
        } else if (failed.incrementAndGet() <= SHOWN_MAX) {
            System.err.println(kind + ": " + what.substring(0, Math.min(what.length(), 400)));
        }
        return holds;
    }

    /** Runs every kind, one after the other, and prints its line. Whether all checks hold. */
    static boolean run(LinkedHashMap<String, Kind> kinds) {
        boolean good = true;
        for (Map.Entry<String, Kind> kind : kinds.entrySet()) {
            Tally checks = new Tally(kind.getKey());
            try {
                kind.getValue().run(checks);
            } catch (Exception | AssertionError error) {
                checks.that(false, error + " at " + error.getStackTrace()[0]);
            }
            System.out.println("kind " + kind.getKey() + " " + checks.passed + " " + checks.failed);
            good &= checks.failed.get() == 0;
        }
        System.out.println("done");
        return good;
    }
}
