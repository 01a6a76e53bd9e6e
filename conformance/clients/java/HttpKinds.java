import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.IntFunction;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;

/** The kinds of requests, with HttpClient. */
final class HttpKinds {
    /** A request that takes so long has failed: it is far longer than any of them needs. */
    private static final Duration TIMEOUT = Duration.ofSeconds(30);

    private static final Pattern ITEM = Pattern.compile("\"price\":(\\d+),\"quantity\":(\\d+).*?\"total\":(-?\\d+)");

    private final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final String base;
    private final String via;

    HttpKinds(String base, String via) {
        this.base = base;
        this.via = via;
    }

    /** Of bodies that may come back before they were sent. */
    private int[] echoSizes(int... sizes) {
        // Once an answer begins, nginx sends no more of the request's body: larger ones may stop in the middle.
        return IntStream.of(sizes).filter(size -> !via.equals("nginx") || size <= 65537).toArray();
    }

    LinkedHashMap<String, Tally.Kind> all() {
        LinkedHashMap<String, Tally.Kind> kinds = new LinkedHashMap<>();
        kinds.put("get", this::get);
        kinds.put("keep-alive", this::keepAlive);
        kinds.put("head", this::head);
        kinds.put("post", this::post);
        kinds.put("echo-length", checks -> echoes(checks, BodyPublishers::ofByteArray));
        kinds.put("echo-chunked", checks -> echoes(checks, HttpKinds::chunked));
        kinds.put("upload", this::upload);
        kinds.put("expect", this::expect);
        kinds.put("blob", this::blob);
        kinds.put("delay", this::delay);
        kinds.put("json", this::json);
        kinds.put("headers", this::headers);
        kinds.put("gzip", this::gzip);
        kinds.put("errors", this::errors);
        kinds.put("concurrent", this::concurrent);
        kinds.put("cancel", this::cancel);
        kinds.put("early", this::early);
        return kinds;
    }

    private HttpRequest.Builder to(String path) {
        return HttpRequest.newBuilder(URI.create(base + path)).timeout(TIMEOUT);
    }

    /** A body whose length is not told. */
    private static BodyPublisher chunked(byte[] body) {
        return BodyPublishers.ofInputStream(() -> new ByteArrayInputStream(body));
    }

    /** Sends a request and checks status and body; nothing is compared with a body of null. The answer, or null if there was none. */
    private HttpResponse<byte[]> ask(Tally checks, HttpRequest request, int status, byte[] expected) throws InterruptedException {
        String what = request.method() + " " + request.uri().getPath() + ": ";
        try {
            HttpResponse<byte[]> answer = client.send(request, BodyHandlers.ofByteArray());
            boolean right = answer.statusCode() == status && (expected == null || Bodies.same(answer.body(), expected));
            checks.that(right, what + answer.statusCode() + " with " + answer.body().length + " bytes");
            return answer;
        } catch (IOException error) {
            checks.that(false, what + error + " caused by " + error.getCause());
            return null;
        }
    }

    private HttpResponse<byte[]> get(Tally checks, String path, int status, String expected) throws InterruptedException {
        return ask(checks, to(path).build(), status, expected == null ? null : expected.getBytes());
    }

    private void post(Tally checks, String path, BodyPublisher body, int status, String expected) throws InterruptedException {
        ask(checks, to(path).POST(body).build(), status, expected == null ? null : expected.getBytes());
    }

    /** A small request that the client does not send again by itself if the connection is lost. */
    private void postEcho(Tally checks) throws InterruptedException {
        byte[] body = Bodies.content(1000);
        ask(checks, to("/echo").POST(chunked(body)).build(), 200, body);
    }

    /** How many connections the server has taken so far. */
    private int accepted(Tally checks) throws InterruptedException {
        HttpResponse<byte[]> answer = get(checks, "/metrics", 200, null);
        String text = answer == null ? "" : new String(answer.body());
        return text.lines()
                .filter(line -> line.startsWith("plimsoll_accepted_total "))
                .mapToInt(line -> Integer.parseInt(line.split(" ")[1]))
                .findFirst()
                .orElse(-1);
    }

    private static String field(HttpResponse<byte[]> answer, String name) {
        return answer == null ? "" : answer.headers().firstValue(name).orElse("");
    }

    private void get(Tally checks) throws InterruptedException {
        for (int turn = 0; turn < 10; turn++) {
            HttpResponse<byte[]> index = get(checks, "/", 200, null);
            checks.that(index != null && index.body().length >= 1024 && field(index, "content-type").startsWith("text/"), "GET /");
            get(checks, "/pipeline", 200, "ok");
            get(checks, "/baseline11?a=1&b=2", 200, "3");
            get(checks, "/baseline2?a=-5&b=x&c=7", 200, "2");
        }
    }

    /** Requests one after the other need one connection, and a proxy needs no more of its own. */
    private void keepAlive(Tally checks) throws InterruptedException {
        int before = accepted(checks);
        for (int number = 0; number < 100; number++) {
            post(checks, "/baseline2?a=1", BodyPublishers.ofString("" + number), 200, "" + (number + 1));
        }
        int after = accepted(checks);
        checks.that(before > 0 && after - before <= 1, "100 requests took " + before + " to " + after + " connections");
    }

    private void head(Tally checks) throws InterruptedException {
        for (String path : List.of("/pipeline 2", "/blob/1000000 1000000", "/baseline11?a=10 2", "/json/5", "/")) {
            String[] words = path.split(" ");
            for (int turn = 0; turn < 3; turn++) {
                HttpRequest request = to(words[0]).method("HEAD", BodyPublishers.noBody()).build();
                HttpResponse<byte[]> answer = ask(checks, request, 200, new byte[0]);
                String given = field(answer, "content-length");
                checks.that(words.length == 1 || given.equals(words[1]), "HEAD " + path + ": Content-Length " + given);
            }
        }
        ask(checks, to("/nothing").method("HEAD", BodyPublishers.noBody()).build(), 404, new byte[0]);
    }

    private void post(Tally checks) throws InterruptedException {
        for (int number = 0; number < 10; number++) {
            post(checks, "/", BodyPublishers.ofString("x"), 200, null);
            post(checks, "/baseline11?a=1&b=2", BodyPublishers.ofString("" + number), 200, "" + (number + 3));
            post(checks, "/baseline11?a=1", chunked(("" + number).getBytes()), 200, "" + (number + 1));
            post(checks, "/upload", BodyPublishers.noBody(), 200, "0");
        }
    }

    private void echoes(Tally checks, java.util.function.Function<byte[], BodyPublisher> framed) throws InterruptedException {
        for (int size : echoSizes(Bodies.SIZES)) {
            byte[] body = Bodies.content(size);
            ask(checks, to("/echo").POST(framed.apply(body)).build(), 200, body);
        }
        HttpRequest request = to("/echo").header("Content-Type", "application/x-of-ours").POST(framed.apply(new byte[2])).build();
        String type = field(ask(checks, request, 200, new byte[2]), "content-type");
        checks.that(type.equals("application/x-of-ours"), "the Content-Type that comes back is " + type);
    }

    private void upload(Tally checks) throws InterruptedException {
        for (int size : Bodies.SIZES) {
            post(checks, "/upload", BodyPublishers.ofByteArray(Bodies.content(size)), 200, "" + size);
            post(checks, "/upload", chunked(Bodies.content(size)), 200, "" + size);
        }
    }

    private void expect(Tally checks) throws InterruptedException {
        for (int size : new int[] {1, 4096, 65537, 1 << 20}) {
            for (int turn = 0; turn < 3; turn++) {
                byte[] body = Bodies.content(size);
                // haproxy cuts an answer off if it comes together with the 100, before the body was sent.
                boolean isDirect = via.equals("direct");
                HttpRequest.Builder request = to(isDirect ? "/echo" : "/upload").expectContinue(true);
                ask(checks, request.POST(BodyPublishers.ofByteArray(body)).build(), 200, isDirect ? body : ("" + size).getBytes());
                // Older ones wait for ever for a 100 that need not come (JDK-8286171).
                if (Runtime.version().feature() >= 20) {
                    ask(checks, to("/nothing").expectContinue(true).POST(BodyPublishers.ofByteArray(body)).build(), 404, null);
                }
                postEcho(checks);
            }
        }
    }

    private void blob(Tally checks) throws InterruptedException {
        ask(checks, to("/blob/16777217").build(), 200, Bodies.filled(16777217, 'p'));
        for (int size : Bodies.SIZES) {
            ask(checks, to("/blob/" + size).build(), 200, Bodies.filled(size, 'p'));
        }
    }

    /** Runs it 32 times at once. */
    private static void at32(Tally checks, IntFunction<Tally.Kind> one) throws InterruptedException {
        Thread[] threads = new Thread[32];
        for (int worker = 0; worker < threads.length; worker++) {
            Tally.Kind kind = one.apply(worker);
            threads[worker] = new Thread(() -> {
                try {
                    kind.run(checks);
                } catch (Exception error) {
                    checks.that(false, error.toString());
                }
            });
            threads[worker].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private void delay(Tally checks) throws InterruptedException {
        at32(checks, worker -> all -> {
            long start = System.nanoTime();
            get(all, "/delay/" + (20 + worker), 200, "ok");
            all.that(System.nanoTime() - start >= (20 + worker) * 1_000_000L, "a delay of " + (20 + worker) + " ms ended before its time");
        });
        get(checks, "/delay/0", 200, "ok");
    }

    private void json(Tally checks) throws InterruptedException {
        int[][] pages = {{0, 1}, {1, 1}, {25, 3}, {50, 1}, {50, 7}};
        for (int[] page : pages) {
            HttpResponse<byte[]> answer = get(checks, "/json/" + page[0] + (page[1] == 1 ? "" : "?m=" + page[1]), 200, null);
            String text = answer == null ? "" : new String(answer.body());
            checks.that(text.endsWith("\"count\":" + page[0] + "}") && field(answer, "content-type").equals("application/json"), text);
            Matcher item = ITEM.matcher(text);
            int items = 0;
            for (; item.find(); items++) {
                long total = Long.parseLong(item.group(1)) * Long.parseLong(item.group(2)) * page[1];
                checks.that(item.group(3).equals("" + total), "a total of " + item.group(3) + ", not " + total);
            }
            checks.that(items == page[0], items + " items of " + page[0]);
        }
    }

    private void headers(Tally checks) throws InterruptedException {
        for (String value : List.of("x", "a, b;c=\"d\"", "v".repeat(4000))) {
            HttpRequest request = to("/headers").header("X-Of-Ours", value).header("X-Twice", "one").header("X-Twice", "two").build();
            HttpResponse<byte[]> answer = ask(checks, request, 200, null);
            List<String> lines = answer == null ? List.of() : new String(answer.body()).toLowerCase().lines().toList();
            checks.that(lines.contains("x-of-ours: " + value), "x-of-ours is missing: " + lines);
            checks.that(lines.contains("x-twice: one") && lines.contains("x-twice: two"), "x-twice is missing: " + lines);
        }
    }

    private void gzip(Tally checks) throws InterruptedException {
        for (String coding : List.of("gzip", "gzip, deflate, br", "identity")) {
            HttpResponse<byte[]> answer = ask(checks, to("/json/50").header("Accept-Encoding", coding).build(), 200, null);
            checks.that(answer != null && field(answer, "content-encoding").isEmpty() && answer.body()[0] == '{', "with " + coding);
        }
    }

    private void errors(Tally checks) throws InterruptedException {
        for (int turn = 0; turn < 3; turn++) {
            for (String path : List.of("/nothing", "/json/51", "/delay/60001", "/blob/x", "/pipeline/")) {
                get(checks, path, 404, null);
            }
            checks.that(field(ask(checks, to("/pipeline").DELETE().build(), 405, null), "allow").equals("GET, HEAD"), "Allow of /pipeline");
            checks.that(field(get(checks, "/echo", 405, null), "allow").equals("POST"), "Allow of /echo");
            post(checks, "/baseline11", BodyPublishers.ofByteArray(Bodies.content(5000)), 413, null);
            get(checks, "/ws", 426, null);
            // Refused by the first who sees it; the property jdk.httpclient.allowRestrictedHeaders permits it.
            try {
                HttpRequest refused = to("/pipeline").header("Host", "a[b").build();
                int status = client.send(refused, BodyHandlers.discarding()).statusCode();
                checks.that(status == 400, "a bad host: " + status);
            } catch (IOException error) {
                checks.that(false, "a bad host: " + error);
            }
            postEcho(checks);
        }
    }

    private void concurrent(Tally checks) throws InterruptedException {
        int before = accepted(checks);
        at32(checks, worker -> all -> {
            for (int turn = 0; turn < 3; turn++) {
                int size = 1 + worker * 5000 + turn;
                get(all, "/pipeline", 200, "ok");
                postEcho(all);
                ask(all, to("/blob/" + size).build(), 200, Bodies.filled(size, 'p'));
                post(all, "/upload", BodyPublishers.ofByteArray(Bodies.content(size)), 200, "" + size);
            }
        });
        int after = accepted(checks);
        checks.that(before > 0 && after - before <= 64, "384 requests, 32 at once, took " + before + " to " + after + " connections");
    }

    private void cancel(Tally checks) throws Exception {
        for (int turn = 0; turn < 5; turn++) {
            HttpResponse<InputStream> answer = client.send(to("/blob/1000000000").build(), BodyHandlers.ofInputStream());
            try (InputStream body = answer.body()) {
                checks.that(body.readNBytes(100_000).length == 100_000, "100,000 bytes were not there");
            }
            postEcho(checks);
            // It gives up when the body does.
            byte[] half = Bodies.content(20_000);
            InputStream stopping = new ByteArrayInputStream(half) {
                @Override
                public synchronized int read(byte[] into, int at, int length) {
                    int count = super.read(into, at, length);
                    if (count < 0) {
                        throw new IllegalStateException("given up");
                    }
                    return count;
                }
            };
            boolean failed = false;
            try {
                client.send(to("/upload").POST(BodyPublishers.ofInputStream(() -> stopping)).build(), BodyHandlers.discarding());
            } catch (IOException | IllegalStateException expected) {
                failed = true;
            }
            checks.that(failed, "half a body was answered");
            postEcho(checks);
            CompletableFuture<HttpResponse<Void>> waiting = client.sendAsync(to("/delay/50000").build(), BodyHandlers.discarding());
            boolean waited = false;
            try {
                waiting.get(20, TimeUnit.MILLISECONDS);
            } catch (TimeoutException | ExecutionException expected) {
                waited = waiting.cancel(true) || waiting.isDone();
            }
            checks.that(waited, "a delay of 50 s was answered at once");
            postEcho(checks);
        }
    }

    /** Answers that come before the body has been sent, and the request that follows on the same client. */
    private void early(Tally checks) throws InterruptedException {
        for (int size : new int[] {1000, 65536, 65537, 200_000, 1 << 20, 1 << 20, 1 << 20, 5 << 20}) {
            byte[] body = Bodies.content(size);
            post(checks, "/nothing", BodyPublishers.ofByteArray(body), 404, null);
            postEcho(checks);
            post(checks, "/nothing", chunked(body), 404, null);
            postEcho(checks);
            post(checks, "/pipeline", BodyPublishers.ofByteArray(body), 405, null);
            postEcho(checks);
        }
    }
}
