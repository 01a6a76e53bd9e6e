import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.WebSocket;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** The kinds of messages, with java.net.http.WebSocket, which knows no permessage-deflate. */
final class SocketKinds {
    private static final int TIMEOUT_S = 30;
    /** Where the length of a frame gets longer, and where buffers end. */
    private static final int[] SIZES = {0, 1, 125, 126, 127, 4095, 4096, 4097, 65535, 65536, 65537, 1 << 20, 5 << 20};

    private final HttpClient client = HttpClient.newHttpClient();
    private final URI uri;

    SocketKinds(String base) {
        uri = URI.create(base.replace("http:", "ws:") + "/ws");
    }

    LinkedHashMap<String, Tally.Kind> all() {
        LinkedHashMap<String, Tally.Kind> kinds = new LinkedHashMap<>();
        kinds.put("messages", this::messages);
        kinds.put("fragments", this::fragments);
        kinds.put("ping", this::ping);
        kinds.put("close", this::close);
        kinds.put("concurrent", this::concurrent);
        return kinds;
    }

    /** What arrives: text, bytes, a pong or the code of a close, whole. */
    private final class Connection implements WebSocket.Listener {
        private final BlockingQueue<Object> arrived = new LinkedBlockingQueue<>();
        private final StringBuilder text = new StringBuilder();
        private final java.io.ByteArrayOutputStream bytes = new java.io.ByteArrayOutputStream();
        private final WebSocket socket;

        Connection() throws Exception {
            socket = client.newWebSocketBuilder().buildAsync(uri, this).get(TIMEOUT_S, TimeUnit.SECONDS);
        }

        @Override
        public CompletionStage<?> onText(WebSocket from, CharSequence part, boolean last) {
            text.append(part);
            if (last) {
                arrived.add(text.toString());
                text.setLength(0);
            }
            from.request(1);
            return null;
        }

        @Override
        public CompletionStage<?> onBinary(WebSocket from, ByteBuffer part, boolean last) {
            byte[] copy = new byte[part.remaining()];
            part.get(copy);
            bytes.writeBytes(copy);
            if (last) {
                arrived.add(bytes.toByteArray());
                bytes.reset();
            }
            from.request(1);
            return null;
        }

        @Override
        public CompletionStage<?> onPong(WebSocket from, ByteBuffer message) {
            arrived.add(message.remaining());
            from.request(1);
            return null;
        }

        @Override
        public CompletionStage<?> onClose(WebSocket from, int code, String reason) {
            arrived.add("closed " + code);
            return null;
        }

        @Override
        public void onError(WebSocket from, Throwable error) {
            arrived.add("error " + error);
        }

        Object next() throws InterruptedException {
            Object message = arrived.poll(TIMEOUT_S, TimeUnit.SECONDS);
            return message == null ? "no message in time" : message;
        }

        void sent(CompletableFuture<WebSocket> sending) throws Exception {
            sending.get(TIMEOUT_S, TimeUnit.SECONDS);
        }

        void expect(Tally checks, byte[] message) throws InterruptedException {
            Object back = next();
            checks.that(back instanceof byte[] got && Bodies.same(got, message), "echo of " + message.length + " bytes: " + shown(back));
        }

        void expect(Tally checks, String message) throws InterruptedException {
            Object back = next();
            checks.that(message.equals(back), "echo of " + message.length() + " characters: " + shown(back));
        }

        void echo(Tally checks, byte[] message) throws Exception {
            sent(socket.sendBinary(ByteBuffer.wrap(message), true));
            expect(checks, message);
        }

        void echo(Tally checks, String message) throws Exception {
            sent(socket.sendText(message, true));
            expect(checks, message);
        }

        void close(Tally checks, int code, String reason) throws Exception {
            sent(socket.sendClose(code, reason));
            Object answer = next();
            checks.that(answer.equals("closed " + code), "closed with " + code + ", the answer is " + shown(answer));
        }
    }

    private static String shown(Object message) {
        return message instanceof byte[] bytes ? bytes.length + " bytes" : message.toString();
    }

    /** Characters of one to four bytes. */
    private static String text(int length) {
        String text = "aé€z".repeat(length / 4 + 1).substring(0, length);
        return length < 6 ? text : "\uD83D\uDE00" + text.substring(2);
    }

    private void messages(Tally checks) throws Exception {
        Connection connection = new Connection();
        for (int size : SIZES) {
            connection.echo(checks, Bodies.content(size));
            connection.echo(checks, text(size));
            connection.echo(checks, Bodies.filled(size, 'a'));
        }
        for (int number = 0; number < 100; number++) {
            connection.echo(checks, "message " + number);
        }
        connection.close(checks, 1000, "");
    }

    private void fragments(Tally checks) throws Exception {
        Connection connection = new Connection();
        for (int size : new int[] {1, 125, 126, 4096, 65536, 200_000}) {
            byte[] whole = Bodies.content(size);
            for (int at = 0; at < size; at += 999) {
                int length = Math.min(999, size - at);
                connection.sent(connection.socket.sendBinary(ByteBuffer.wrap(whole, at, length), at + length == size));
            }
            connection.expect(checks, whole);
            connection.sent(connection.socket.sendText("", false));
            connection.sent(connection.socket.sendText(text(size), false));
            connection.sent(connection.socket.sendPong(ByteBuffer.allocate(3)));
            connection.sent(connection.socket.sendText("", true));
            connection.expect(checks, text(size));
        }
        connection.close(checks, 1000, "");
    }

    private void ping(Tally checks) throws Exception {
        Connection connection = new Connection();
        for (int size : new int[] {0, 1, 125}) {
            for (int turn = 0; turn < 10; turn++) {
                connection.sent(connection.socket.sendPing(ByteBuffer.wrap(Bodies.content(size))));
                Object pong = connection.next();
                checks.that(pong.equals(size), "a pong of " + shown(pong));
                connection.echo(checks, "between");
            }
        }
        connection.close(checks, 1000, "");
    }

    private void close(Tally checks) throws Exception {
        String[] reasons = {"", "away", "r".repeat(123), "é"};
        int[] codes = {1000, 3000, 3001, 4999};
        for (int at = 0; at < codes.length; at++) {
            Connection connection = new Connection();
            connection.echo(checks, "before");
            connection.close(checks, codes[at], reasons[at]);
        }
        // Without a word: what follows must not be disturbed.
        for (int turn = 0; turn < 10; turn++) {
            Connection connection = new Connection();
            connection.sent(connection.socket.sendBinary(ByteBuffer.wrap(Bodies.content(100_000)), true));
            connection.socket.abort();
            Connection following = new Connection();
            following.echo(checks, "after");
            following.close(checks, 1000, "");
        }
    }

    private void concurrent(Tally checks) throws Exception {
        List<Connection> all = new ArrayList<>();
        for (int worker = 0; worker < 32; worker++) {
            all.add(new Connection());
        }
        for (int number = 0; number < 10; number++) {
            for (int worker = 0; worker < all.size(); worker++) {
                Connection connection = all.get(worker);
                connection.sent(connection.socket.sendBinary(ByteBuffer.wrap(Bodies.content(worker * 1000 + number)), true));
            }
            for (int worker = 0; worker < all.size(); worker++) {
                all.get(worker).expect(checks, Bodies.content(worker * 1000 + number));
            }
        }
        for (Connection connection : all) {
            connection.close(checks, 1000, "");
        }
    }
}
