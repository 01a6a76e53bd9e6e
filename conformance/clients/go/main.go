// Checked requests of every kind to arena, with net/http (HTTP/1.1 and HTTP/2) and golang.org/x/net/http2.
//
//	clients --client NAME --base http://127.0.0.1:8080 --via direct|nginx|haproxy-h1|haproxy-h2
//
// A line on stdout for each kind of request, `kind NAME PASSED FAILED`, the versions before them, `done` after them. What failed is on stderr.
package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/net/http2"
)

func main() {
	name := flag.String("client", "", "net-http-h1, net-http-h2, or x-net-http2")
	base := flag.String("base", "", "where the server or the proxy is")
	via := flag.String("via", "direct", "what is between: direct, nginx, haproxy-h1, haproxy-h2")
	flag.Parse()
	transport, protocol, version := transportOf(*name)
	if transport == nil || *base == "" {
		flag.Usage()
		os.Exit(2)
	}
	fmt.Printf("version %s\n", version)
	t := &target{base: *base, via: *via, protocol: protocol, client: &http.Client{Transport: transport, Timeout: requestTimeout}}
	if !runKinds(t) {
		os.Exit(1)
	}
}

// transportOf makes the client of that name, and says which major version of HTTP it speaks.
func transportOf(name string) (http.RoundTripper, int, string) {
	protocols := new(http.Protocols)
	switch name {
	case "net-http-h1":
		protocols.SetHTTP1(true)
		return &http.Transport{Protocols: protocols, MaxIdleConnsPerHost: 64, ExpectContinueTimeout: requestTimeout, DisableCompression: true}, 1, runtime.Version()
	case "net-http-h2":
		protocols.SetUnencryptedHTTP2(true)
		// The smallest windows it takes.
		windows := &http.HTTP2Config{MaxReceiveBufferPerConnection: 64 << 10, MaxReceiveBufferPerStream: 16 << 10}
		return &http.Transport{Protocols: protocols, HTTP2: windows, DisableCompression: true}, 2, runtime.Version()
	case "x-net-http2":
		dial := func(ctx context.Context, network, address string, _ *tls.Config) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}
		return &http2.Transport{AllowHTTP: true, DialTLSContext: dial, DisableCompression: true}, 2, moduleVersion("golang.org/x/net")
	}
	return nil, 0, ""
}

func moduleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	for i := 0; ok && i < len(info.Deps); i++ {
		if info.Deps[i].Path == path {
			return info.Deps[i].Version
		}
	}
	return "unknown"
}

// A request that takes so long has failed: it is far longer than any of them needs.
const requestTimeout = 30 * time.Second
