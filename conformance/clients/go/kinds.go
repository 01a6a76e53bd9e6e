package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The kinds of requests, in the order in which they are sent.
var kinds = []struct {
	name string
	run  func(*target, *checks)
}{
	{"get", get}, {"keep-alive", keepAlive}, {"head", head}, {"post", post}, {"echo-length", echoLength}, {"echo-chunked", echoChunked}, {"upload", upload},
	{"expect", expect}, {"blob", blob}, {"delay", delay}, {"json", items}, {"headers", headers}, {"gzip", gzip}, {"trailers", trailers},
	{"errors", wrong}, {"concurrent", concurrent}, {"cancel", cancelled}, {"early", early},
}

func get(t *target, c *checks) {
	for range 10 {
		index := t.ask(c, "GET", "/", nil, 200, any_)
		c.that(len(index.body) >= 1024 && strings.HasPrefix(index.header.Get("Content-Type"), "text/"), "GET /: %d bytes", len(index.body))
		t.ask(c, "GET", "/pipeline", nil, 200, "ok")
		t.ask(c, "GET", "/baseline11?a=1&b=2", nil, 200, "3")
		t.ask(c, "GET", "/baseline2?a=-5&b=x&c=7", nil, 200, "2")
	}
}

func head(t *target, c *checks) {
	for path, length := range map[string]int64{"/pipeline": 2, "/blob/1000000": 1000000, "/baseline11?a=10": 2, "/json/5": -1, "/": -1} {
		for range 3 {
			got := t.ask(c, "HEAD", path, nil, 200, "")
			c.that(length < 0 || got.length == length, "HEAD %s: Content-Length %d", path, got.length)
		}
	}
	t.ask(c, "HEAD", "/nothing", nil, 404, "")
}

func post(t *target, c *checks) {
	for number := range 10 {
		t.ask(c, "POST", "/", strings.NewReader("x"), 200, any_)
		t.ask(c, "POST", "/baseline11?a=1&b=2", strings.NewReader(strconv.Itoa(number)), 200, strconv.Itoa(number+3))
		t.ask(c, "POST", "/baseline11?a=1", stream{strings.NewReader(strconv.Itoa(number))}, 200, strconv.Itoa(number+1))
		t.ask(c, "POST", "/upload", nil, 200, "0")
	}
}

func echoLength(t *target, c *checks) {
	for _, size := range t.echoSizes(sizes...) {
		body := content(size)
		request := t.request(context.Background(), "POST", "/echo", bytes.NewReader(body))
		t.echo(c, request, body)
	}
	request := t.request(context.Background(), "POST", "/echo", strings.NewReader("{}"))
	request.Header.Set("Content-Type", "application/x-of-ours")
	got, err := t.send(request)
	c.that(err == nil && got.header.Get("Content-Type") == "application/x-of-ours", "Content-Type %v %v", got.header, err)
}

func echoChunked(t *target, c *checks) {
	for _, size := range t.echoSizes(sizes...) {
		body := content(size)
		t.echo(c, t.request(context.Background(), "POST", "/echo", stream{bytes.NewReader(body)}), body)
	}
}

func upload(t *target, c *checks) {
	for _, size := range sizes {
		t.ask(c, "POST", "/upload", bytes.NewReader(content(size)), 200, strconv.Itoa(size))
		t.ask(c, "POST", "/upload", stream{bytes.NewReader(content(size))}, 200, strconv.Itoa(size))
	}
}

func expect(t *target, c *checks) {
	for _, size := range []int{1, 4096, 65537, 1 << 20} {
		for range 3 {
			body := content(size)
			request := t.request(context.Background(), "POST", "/echo", bytes.NewReader(body))
			request.Header.Set("Expect", "100-continue")
			if t.via == "direct" {
				t.echo(c, request, body)
			} else {
				// haproxy cuts an answer off if it comes together with the 100, before the body was sent.
				request.URL.Path = "/upload"
				got, err := t.send(request)
				c.that(err == nil && string(got.body) == strconv.Itoa(size), "upload of %d: %q %v", size, got.body, err)
			}
			for range t.earlySizes(size) {
				refused := t.request(context.Background(), "POST", "/nothing", bytes.NewReader(body))
				refused.Header.Set("Expect", "100-continue")
				got, err := t.send(refused)
				c.that(err == nil && got.status == 404, "POST /nothing with Expect: %d %v", got.status, err)
			}
			t.postEcho(c)
		}
	}
}

func blob(t *target, c *checks) {
	for _, size := range append([]int{16<<20 + 1}, sizes...) {
		t.ask(c, "GET", fmt.Sprintf("/blob/%d", size), nil, 200, strings.Repeat("p", size))
	}
}

func delay(t *target, c *checks) {
	at32(func(worker int) {
		start := time.Now()
		t.ask(c, "GET", fmt.Sprintf("/delay/%d", 20+worker), nil, 200, "ok")
		c.that(time.Since(start) >= time.Duration(20+worker)*time.Millisecond, "a delay of %d ms ended before its time", 20+worker)
	})
	t.ask(c, "GET", "/delay/0", nil, 200, "ok")
}

func items(t *target, c *checks) {
	for _, path := range []string{"/json/0", "/json/1", "/json/25?m=3", "/json/50", "/json/50?m=7"} {
		var page struct {
			Count int
			Items []struct{ Price, Quantity, Total int64 }
		}
		got := t.ask(c, "GET", path, nil, 200, any_)
		c.that(json.Unmarshal(got.body, &page) == nil && got.header.Get("Content-Type") == "application/json", "%s: %.80q", path, got.body)
		words := strings.FieldsFunc(path, func(r rune) bool { return !strings.ContainsRune("0123456789", r) })
		count, _ := strconv.Atoi(words[0])
		factor := int64(1)
		if len(words) > 1 {
			factor, _ = strconv.ParseInt(words[1], 10, 64)
		}
		c.that(page.Count == count && len(page.Items) == count, "%s: %d items", path, len(page.Items))
		for _, item := range page.Items {
			c.that(item.Total == item.Price*item.Quantity*factor, "%s: a total of %d", path, item.Total)
		}
	}
}

func headers(t *target, c *checks) {
	for _, value := range []string{"x", "a, b;c=\"d\"", strings.Repeat("v", 4000)} {
		request := t.request(context.Background(), "GET", "/headers", nil)
		request.Header.Set("X-Of-Ours", value)
		request.Header["X-Twice"] = []string{"one", "two"}
		got, err := t.send(request)
		c.that(err == nil && got.status == 200, "GET /headers: %d %v", got.status, err)
		lines := strings.Split(strings.ToLower(string(got.body)), "\n")
		c.that(slices.Contains(lines, "x-of-ours: "+value), "x-of-ours is missing: %.200q", got.body)
		c.that(slices.Contains(lines, "x-twice: one") && slices.Contains(lines, "x-twice: two"), "x-twice: %.200q", got.body)
	}
}

func gzip(t *target, c *checks) {
	for _, coding := range []string{"", "gzip", "gzip, deflate, br", "identity"} {
		request := t.request(context.Background(), "GET", "/json/50", nil)
		if coding != "" {
			request.Header.Set("Accept-Encoding", coding)
		}
		got, err := t.send(request)
		c.that(err == nil && got.header.Get("Content-Encoding") == "" && json.Valid(got.body), "with %q: %v %v", coding, got.header, err)
	}
}

func trailers(t *target, c *checks) {
	if t.via == "nginx" && t.protocol == 2 {
		// It takes the second HEADERS frame for an error of the connection.
		return
	}
	for _, size := range t.echoSizes(0, 1, 4096, 65537, 1<<20) {
		body := content(size)
		request := t.request(context.Background(), "POST", "/echo", stream{bytes.NewReader(body)})
		request.Trailer = http.Header{"X-Checksum": {"1234"}, "X-Other": {strings.Repeat("t", 500)}}
		t.echo(c, request, body)
		t.postEcho(c)
	}
}

func wrong(t *target, c *checks) {
	for range 3 {
		for _, path := range []string{"/nothing", "/json/51", "/delay/60001", "/blob/x", "/pipeline/"} {
			t.ask(c, "GET", path, nil, 404, any_)
		}
		got := t.ask(c, "DELETE", "/pipeline", nil, 405, any_)
		c.that(got.header.Get("Allow") == "GET, HEAD", "Allow: %q", got.header.Get("Allow"))
		got = t.ask(c, "GET", "/echo", nil, 405, any_)
		c.that(got.header.Get("Allow") == "POST", "Allow: %q", got.header.Get("Allow"))
		t.ask(c, "POST", "/baseline11", bytes.NewReader(content(5000)), 413, any_)
		if t.protocol == 1 {
			t.ask(c, "GET", "/ws", nil, 426, any_)
			// Refused by the first who sees it. On HTTP/2 a stream error is allowed, too, after which the client asks again and again.
			request := t.request(context.Background(), "GET", "/pipeline", nil)
			request.Host = "a[b"
			refused, err := t.send(request)
			c.that(err == nil && refused.status == 400, "a bad host: %d %v", refused.status, err)
		}
		t.postEcho(c)
	}
}

// Requests one after the other need one connection, and a proxy needs no more of its own.
func keepAlive(t *target, c *checks) {
	before := t.accepted(c)
	for number := range 100 {
		t.ask(c, "POST", "/baseline2?a=1", strings.NewReader(strconv.Itoa(number)), 200, strconv.Itoa(number+1))
	}
	after := t.accepted(c)
	c.that(before > 0 && after-before <= 1, "100 requests took %d connections", after-before)
}

// at32 runs it 32 times at once.
func at32(run func(worker int)) {
	var group sync.WaitGroup
	for worker := range 32 {
		group.Add(1)
		go func() {
			defer group.Done()
			run(worker)
		}()
	}
	group.Wait()
}

func concurrent(t *target, c *checks) {
	before := t.accepted(c)
	at32(func(worker int) {
		for round := range 3 {
			t.ask(c, "GET", "/pipeline", nil, 200, "ok")
			t.postEcho(c)
			size := 1 + worker*5000 + round
			t.ask(c, "GET", fmt.Sprintf("/blob/%d", size), nil, 200, strings.Repeat("p", size))
			if !t.isHTTP2ByHaproxy() {
				t.ask(c, "POST", "/upload", bytes.NewReader(content(size)), 200, strconv.Itoa(size))
			}
		}
	})
	after := t.accepted(c)
	c.that(before > 0 && after-before <= 64, "384 requests, 32 at once, took %d connections", after-before)
}

func cancelled(t *target, c *checks) {
	for range 5 {
		// While the answer comes.
		ctx, cancel := context.WithCancel(context.Background())
		response, err := t.client.Do(t.request(ctx, "GET", "/blob/1000000000", nil))
		if c.that(err == nil, "GET /blob: %v", err) {
			_, err = io.CopyN(io.Discard, response.Body, 100000)
			c.that(err == nil, "GET /blob: %v", err)
			cancel()
			response.Body.Close()
		}
		cancel()
		t.postEcho(c)
		// While the body is sent.
		reader, writer := io.Pipe()
		ctx, cancel = context.WithCancel(context.Background())
		go func() {
			_, _ = writer.Write(content(20000))
			cancel()
			_ = writer.CloseWithError(context.Canceled)
		}()
		_, err = t.send(t.request(ctx, "POST", "/upload", reader))
		c.that(errors.Is(err, context.Canceled), "a request that was cancelled: %v", err)
		t.postEcho(c)
		// While the server waits.
		ctx, cancel = context.WithTimeout(context.Background(), 20*time.Millisecond)
		_, err = t.send(t.request(ctx, "GET", "/delay/50000", nil))
		c.that(errors.Is(err, context.DeadlineExceeded), "a request that was cancelled: %v", err)
		cancel()
		t.postEcho(c)
	}
}

// early is about answers that come before the body has been sent, and about the request that follows on the same client.
func early(t *target, c *checks) {
	for _, size := range t.earlySizes(1000, 65536, 65537, 200000, 1<<20, 1<<20, 1<<20, 5<<20) {
		body := content(size)
		for _, framed := range []io.Reader{bytes.NewReader(body), stream{bytes.NewReader(body)}} {
			t.ask(c, "POST", "/nothing", framed, 404, any_)
			t.postEcho(c)
		}
		t.ask(c, "POST", "/pipeline", bytes.NewReader(body), 405, any_)
		t.postEcho(c)
	}
}
