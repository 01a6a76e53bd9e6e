import java.util.HashMap;
import java.util.Map;

/**
 * Checked requests of every kind to arena, with java.net.http: HttpClient (HTTP/1.1) and WebSocket.
 *
 * <pre>Clients --client NAME --base http://127.0.0.1:8080 --via direct|nginx|haproxy-h1|haproxy-h2</pre>
 *
 * A line on stdout for each kind of request, {@code kind NAME PASSED FAILED}, the versions before them, {@code done} after them. What failed is
 * on stderr.
 */
public final class Clients {
    private Clients() {}

    public static void main(String[] arguments) {
        Map<String, String> flags = new HashMap<>();
        for (int at = 0; at + 1 < arguments.length; at += 2) {
            flags.put(arguments[at], arguments[at + 1]);
        }
        String client = flags.getOrDefault("--client", "");
        String base = flags.get("--base");
        System.out.println("version java " + System.getProperty("java.version"));
        boolean good;
        switch (client) {
            case "http-client" -> good = Tally.run(new HttpKinds(base, flags.getOrDefault("--via", "direct")).all());
            case "web-socket" -> good = Tally.run(new SocketKinds(base).all());
            default -> throw new IllegalArgumentException("--client http-client or web-socket");
        }
        // Threads of cancelled requests do not matter.
        System.exit(good ? 0 : 1);
    }
}
