// Go's net/http over its crypto/tls; HTTP/1.1 and HTTP/2 by ALPN. `peer-go-tls ADDR CERT KEY`; one thread
// at a time runs Go code.
package main

import (
	"log"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
)

var blob = []byte(strings.Repeat("p", 64*1024))

func main() {
	if len(os.Args) != 4 {
		log.Fatal("give ADDR CERT KEY")
	}
	runtime.GOMAXPROCS(1)
	http.HandleFunc("/pipeline", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Write([]byte("ok"))
	})
	http.HandleFunc("/blob/", func(w http.ResponseWriter, r *http.Request) {
		left, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/blob/"))
		if err != nil || left < 0 {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.Itoa(left))
		for left > 0 {
			piece := blob[:min(left, len(blob))]
			if _, err := w.Write(piece); err != nil {
				return
			}
			left -= len(piece)
		}
	})
	log.Fatal(http.ListenAndServeTLS(os.Args[1], os.Args[2], os.Args[3], nil))
}
