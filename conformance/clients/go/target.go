package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// target is the server, or the proxy before it, and the client that asks it.
type target struct {
	base, via string
	protocol  int
	client    *http.Client
}

// answer is one that was read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
	length int64
}

// stream is a body whose length is not told: HTTP/1.1 sends it in chunks.
type stream struct{ io.Reader }

func (t *target) request(ctx context.Context, method, path string, body io.Reader) *http.Request {
	request, err := http.NewRequestWithContext(ctx, method, t.base+path, body)
	if err != nil {
		panic(err)
	}
	return request
}

// send sends a request and reads its answer to the end.
func (t *target) send(request *http.Request) (answer, error) {
	response, err := t.client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, fmt.Errorf("after %d bytes of the body: %w", len(body), err)
	}
	if response.ProtoMajor != t.protocol {
		return answer{}, fmt.Errorf("the answer came by %s", response.Proto)
	}
	return answer{response.StatusCode, response.Header, body, response.ContentLength}, nil
}

// ask sends a request and checks status and body.
func (t *target) ask(c *checks, method, path string, body io.Reader, status int, expected string) answer {
	got, err := t.send(t.request(context.Background(), method, path, body))
	if c.that(err == nil, "%s %s: %v", method, path, err) {
		c.that(got.status == status && (expected == any_ || string(got.body) == expected),
			"%s %s: %d with %d bytes: %.60q", method, path, got.status, len(got.body), got.body)
	}
	return got
}

// echo sends a body and checks that it comes back as it was.
func (t *target) echo(c *checks, request *http.Request, body []byte) {
	got, err := t.send(request)
	if c.that(err == nil, "echo of %d: %v", len(body), err) {
		same := sha256.Sum256(got.body) == sha256.Sum256(body)
		c.that(got.status == 200 && same, "echo of %d: %d with %d bytes, the same: %v", len(body), got.status, len(got.body), same)
	}
}

// postEcho sends a small body that the client does not send again by itself if the connection is lost.
func (t *target) postEcho(c *checks) {
	body := content(1000)
	t.echo(c, t.request(context.Background(), "POST", "/echo", stream{bytes.NewReader(body)}), body)
}

// accepted is how many connections the server has taken so far.
func (t *target) accepted(c *checks) int {
	got := t.ask(c, "GET", "/metrics", nil, 200, any_)
	for _, line := range strings.Split(string(got.body), "\n") {
		if value, found := strings.CutPrefix(line, "plimsoll_accepted_total "); found {
			number, _ := strconv.Atoi(value)
			return number
		}
	}
	return -1
}

// content is a body of so many bytes, the same for each length and without a period.
func content(length int) []byte {
	body := make([]byte, length)
	rand.New(rand.NewSource(int64(length))).Read(body)
	return body
}

// any_ is for an answer whose body is not compared.
const any_ = "\x00any"

// echoSizes are of bodies that may come back before they were sent.
func (t *target) echoSizes(wanted ...int) []int {
	largest := wanted[len(wanted)-1]
	if t.via == "nginx" {
		// Once an answer begins, it sends no more of the request's body: larger ones may stop in the middle.
		largest = 65537
	}
	if t.via == "haproxy-h2" && t.protocol == 2 {
		// Data that it cannot pass on keeps it from reading the window updates behind them: with both ways full, neither goes on.
		largest = 16384
	}
	return slices.DeleteFunc(slices.Clone(wanted), func(size int) bool { return size > largest })
}

// isHTTP2ByHaproxy says whether haproxy has HTTP/2 on both sides. When much goes both ways on many streams, 2.6 then reads neither the client nor the
// server any more, whichever server it is.
func (t *target) isHTTP2ByHaproxy() bool { return t.via == "haproxy-h2" && t.protocol == 2 }

// earlySizes are of bodies whose answers may come before they were sent.
func (t *target) earlySizes(wanted ...int) []int {
	if !t.isHTTP2ByHaproxy() {
		return wanted
	}
	// With HTTP/2 on both sides it stops reading the server's connection when its client has gone from a stream that was answered, while the server
	// still takes the rest of the body: one of a frame is over by then.
	return slices.DeleteFunc(wanted, func(size int) bool { return size > 16384 })
}

// sizes are at both sides of every boundary.
var sizes = []int{0, 1, 4095, 4096, 4097, 16383, 16384, 16385, 65535, 65536, 65537, 1 << 20, 5 << 20}
