#!/usr/bin/env bash
# Checked requests of every kind to arena, with curl: HTTP/1.1, and HTTP/2 with prior knowledge.
#
#   clients.sh --client h1|h2 --base http://127.0.0.1:8080 --via direct|nginx|haproxy-h1|haproxy-h2
#
# A line on stdout for each kind of request, `kind NAME PASSED FAILED`, the versions before them, `done` after them. What failed is on stderr.
set -u

client='' base='' via=direct
while [ $# -ge 2 ]; do
    case $1 in
        --client) client=$2 ;;
        --base) base=$2 ;;
        --via) via=$2 ;;
    esac
    shift 2
done
case $client in
    h1) protocol=(--http1.1) number=1.1 ;;
    h2) protocol=(--http2-prior-knowledge) number=2 ;;
    *) echo '--client h1 or h2' >&2; exit 2 ;;
esac
version=$(curl --version | sed -n '1s/^curl \([^ ]*\).*/\1/p')
echo "version curl $version"
# Before 8.0 it cannot use a connection with prior knowledge a second time, whichever server it is (error 16): a process for each request.
case $client.$version in
    h2.7.*) reuses=no ;;
    *) reuses=yes ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
good=0
# At both sides of every boundary.
sizes='0 1 4095 4096 4097 16383 16384 16385 65535 65536 65537 1048576 5242880'
# Once an answer begins, nginx sends no more of the request's body: what comes back before it was sent is small.
# Data that haproxy cannot pass on keeps it from reading the window updates behind them: with HTTP/2 on both sides and both ways full, neither goes on.
case $via.$client in
    haproxy-h2.h2) echo_sizes='0 1 4095 4096 4097 16383 16384' ;;
    nginx.*) echo_sizes='0 1 4095 4096 4097 16383 16384 16385 65535 65536 65537' ;;
    *) echo_sizes=$sizes ;;
esac
# An answer may come before such a body was sent. On HTTP/2 nginx resets the stream behind its answer, with NO_ERROR (RFC 9113 8.1), and curl drops the answer.
# When curl then ends the stream, haproxy 2.6 goes on with the next request on the server's connection of HTTP/1.1, within the body that it has not sent.
case $via.$client in
    haproxy-h1.h2 | nginx.h2) early_bytes_max=16384 ;;
    *) early_bytes_max=5242880 ;;
esac
for size in $sizes 1000 5000 200000; do
    head -c "$size" /dev/urandom >"$work/$size"
done
head -c 33554433 /dev/zero | tr '\0' p >"$work/p"

# Each kind counts from nothing.
begin() { kind=$1 passed=0 failed=0; }
finish() {
    echo "kind $kind $passed $failed"
    [ "$failed" = 0 ] || good=1
}
# that WHAT ACTUAL EXPECTED
that() {
    if [ "$2" = "$3" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        [ "$failed" -gt 5 ] || echo "$kind: $1: '${2:0:150}', not '${3:0:150}'" >&2
    fi
}
# same WHAT FILE FILE, byte by byte
same() { that "$1: body" "$(cmp "$2" "$3" 2>&1)" ''; }
# blob WHAT FILE LENGTH
blob() { that "$1: body" "$(wc -c <"$2") $(cmp --bytes="$3" "$2" "$work/p" 2>&1)" "$3 "; }
fetch() { curl --silent --show-error --noproxy '*' --max-time 30 "${protocol[@]}" "$@"; }
# ask WHAT STATUS FILE FLAGS..: status, version and body of one request; with - for the file the body is not compared
ask() {
    local what=$1 status=$2 expected=$3
    shift 3
    : >"$work/answer"
    that "$what" "$(fetch --output "$work/answer" --write-out '%{http_code} %{http_version}' "$@" 2>&1)" "$status $number"
    [ "$expected" = - ] || same "$what" "$work/answer" "$expected"
}
# many FLAGS..: one request for each `PATH FILE` of the input, on connections that are kept if it can; for each its status, and how many
# connections it made
many() {
    local path file all=() lines=()
    while read -r path file; do
        all+=("$base$path" --output "$work/$file")
        if [ $reuses = no ]; then
            fetch --write-out '%{http_code} 0\n' "$@" "${all[@]}" >"$work/$file.line" 2>&1 &
            lines+=("$work/$file.line") all=()
        fi
    done
    if [ $reuses = yes ]; then
        fetch --write-out '%{http_code} %{num_connects}\n' "$@" "${all[@]}" 2>&1
    else
        wait
        cat "${lines[@]}"
    fi
}

begin get
for turn in 1 2 3 4 5 6 7 8 9 10; do
    echo "/ get.$turn"
    echo "/pipeline pipeline.$turn"
    echo "/baseline11?a=1&b=2 baseline11.$turn"
    echo "/baseline2?a=-5&b=x&c=7 baseline2.$turn"
done >"$work/list"
that 'answers with 200' "$(many <"$work/list" | grep -c '^200 ')" 40
for turn in 1 2 3 4 5 6 7 8 9 10; do
    that 'GET /' "$(($(wc -c <"$work/get.$turn") >= 1024))" 1
    that 'GET /pipeline' "$(cat "$work/pipeline.$turn")" ok
    that 'GET /baseline11' "$(cat "$work/baseline11.$turn")" 3
    that 'GET /baseline2' "$(cat "$work/baseline2.$turn")" 2
done
finish

# Requests one after the other need one connection.
begin keep-alive
for turn in $(seq 100); do
    echo "/baseline2?a=$turn turn.$turn"
done >"$work/list"
many --data 1 <"$work/list" >"$work/lines"
that 'answers with 200' "$(grep -c '^200 ' "$work/lines")" 100
[ $reuses = no ] || that 'connections' "$(awk '{ sum += $2 } END { print sum }' "$work/lines")" 1
for turn in $(seq 100); do
    that "POST /baseline2?a=$turn" "$(cat "$work/turn.$turn")" $((turn + 1))
done
finish

begin head
for path in '/pipeline 2' '/blob/1000000 1000000' '/baseline11?a=10 2'; do
    for turn in 1 2 3; do
        length=$(fetch --head "$base${path% *}" | tr -d '\r' | sed -n 's/^content-length: //Ip')
        that "HEAD $path" "$length" "${path#* }"
    done
done
for path in /json/5 /; do
    that "HEAD $path" "$(fetch --head --output /dev/null --write-out '%{http_code} %{size_download}' "$base$path")" '200 0'
done
that 'HEAD /nothing' "$(fetch --head --output /dev/null --write-out '%{http_code}' "$base/nothing")" 404
finish

begin echo-length
for size in $echo_sizes; do
    ask "echo of $size" 200 "$work/$size" --header 'Expect:' --data-binary "@$work/$size" "$base/echo"
done
type=$(fetch --header 'Content-Type: application/x-of-ours' --data x --output /dev/null --write-out '%{content_type}' "$base/echo")
that Content-Type "$type" application/x-of-ours
finish

begin echo-chunked
for size in $echo_sizes; do
    # A body from a pipe has no length.
    ask "echo of $size" 200 "$work/$size" --header 'Expect:' --request POST --upload-file - "$base/echo" <"$work/$size"
    ask "echo of $size, told" 200 "$work/$size" --header 'Expect:' --header 'Transfer-Encoding: chunked' --data-binary "@$work/$size" "$base/echo"
done
finish

begin upload
for size in $sizes; do
    that "$size bytes" "$(fetch --header 'Expect:' --data-binary "@$work/$size" "$base/upload" 2>&1)" "$size"
    that "$size bytes" "$(fetch --header 'Expect:' --request POST --upload-file - "$base/upload" <"$work/$size" 2>&1)" "$size"
done
finish

# On HTTP/2 nginx says nothing of an expectation, and curl waits.
if [ "$via.$client" != nginx.h2 ]; then
    begin expect
    for size in 1 4096 65537 1048576 5242880; do
        flags=(--expect100-timeout 30 --header 'Expect: 100-continue' --data-binary "@$work/$size")
        # haproxy cuts an answer off if it comes together with the 100, before the body was sent.
        [ "$via" != direct ] || ask "echo of $size" 200 "$work/$size" "${flags[@]}" "$base/echo"
        that "POST /upload of $size" "$(fetch "${flags[@]}" "$base/upload" 2>&1)" "$size"
        [ "$size" -gt $early_bytes_max ] || ask "POST /nothing of $size" 404 - "${flags[@]}" "$base/nothing"
    done
    finish
fi

begin blob
for size in 33554433 $sizes; do
    : >"$work/answer"
    fetch --output "$work/answer" "$base/blob/$size"
    blob "/blob/$size" "$work/answer" "$size"
done
fetch --limit-rate 400k --output "$work/answer" "$base/blob/200000"
blob 'slowly' "$work/answer" 200000
finish

begin delay
for worker in $(seq 32); do
    echo "/delay/$((20 + worker)) delay.$worker"
done >"$work/list"
that 'answers with 200' "$(many --retry 3 --parallel --parallel-immediate --parallel-max 32 <"$work/list" | grep -c '^200 ')" 32
for worker in $(seq 32); do
    that "/delay of $worker" "$(cat "$work/delay.$worker")" ok
done
finish

begin json
for count in 0 1 25 50; do
    that "/json/$count" "$(fetch "$base/json/$count" | grep -o '"total":' | wc -l)" "$count"
    that "/json/$count" "$(fetch --write-out '%{content_type}' --output /dev/null "$base/json/$count")" application/json
done
totals=$(fetch "$base/json/50?m=7" | grep -oE '"price":[0-9]+,"quantity":[0-9]+|"total":[0-9]+' | tr -c '0-9\n' ' ' |
    awk 'NF == 2 { product = $1 * $2 * 7 } NF == 1 { right += $1 == product } END { print right }')
that 'totals' "$totals" 50
finish

begin headers
for value in x 'a, b;c="d"' "$(head -c 4000 "$work/p")"; do
    fetch --header "X-Of-Ours: $value" --header 'X-Twice: one' --header 'X-Twice: two' "$base/headers" | tr 'A-Z' 'a-z' >"$work/answer"
    that 'x-of-ours' "$(sed -n 's/^x-of-ours: //p' "$work/answer")" "$value"
    that 'x-twice' "$(grep -cE '^x-twice: (one|two)$' "$work/answer")" 2
done
finish

begin gzip
for coding in 'Accept-Encoding:' 'Accept-Encoding: gzip' 'Accept-Encoding: identity'; do
    that "$coding" "$(fetch --head --header "$coding" "$base/json/50" | grep -ci '^content-encoding:')" 0
done
that 'compressed' "$(fetch --compressed "$base/json/50")" "$(fetch "$base/json/50")"
finish

begin errors
for turn in 1 2 3; do
    for path in /nothing /json/51 /delay/60001 /blob/x /pipeline/; do
        ask "GET $path" 404 - "$base$path"
    done
    ask 'DELETE /pipeline' 405 - --dump-header "$work/fields" --request DELETE "$base/pipeline"
    that Allow "$(tr -d '\r' <"$work/fields" | sed -n 's/^allow: //Ip')" 'GET, HEAD'
    [ "$via.$client" = nginx.h2 ] || ask 'POST /baseline11' 413 - --data-binary "@$work/5000" "$base/baseline11"
    if [ "$client" = h1 ]; then
        ask 'GET /ws' 426 - "$base/ws"
        status=$(fetch --output /dev/null --write-out '%{http_code}' --header 'Host: a[b' "$base/pipeline" 2>&1)
        that 'a bad host' "$status" 400
    fi
done
finish

begin concurrent
for worker in $(seq 128); do
    echo "/blob/$((worker * 1500)) blob.$worker"
done >"$work/list"
# A machine that does too much at once may leave requests waiting: 503 says when to come again, as to any client.
that 'answers with 200' "$(many --retry 3 --parallel --parallel-max 32 <"$work/list" | grep -c '^200 ')" 128
for worker in $(seq 128); do
    blob "/blob/$((worker * 1500))" "$work/blob.$worker" $((worker * 1500))
done
finish

begin cancel
for turn in 1 2 3; do
    fetch "$base/blob/1000000000" 2>/dev/null | head -c 100000 >"$work/answer"
    blob 'the beginning of a blob' "$work/answer" 100000
    ask 'echo after it' 200 "$work/1000" --data-binary "@$work/1000" "$base/echo"
    # A body that is slower than the client waits for, and an answer that is.
    fetch --max-time 0.2 --limit-rate 20k --header 'Expect:' --data-binary "@$work/200000" --output /dev/null "$base/upload" 2>/dev/null
    that 'half a body' $? 28
    ask 'echo after it' 200 "$work/1000" --data-binary "@$work/1000" "$base/echo"
    fetch --max-time 0.05 --output /dev/null "$base/delay/50000" 2>/dev/null
    that 'a long delay' $? 28
    ask 'echo after it' 200 "$work/1000" --data-binary "@$work/1000" "$base/echo"
done
finish

# Answers that come before the body has been sent, and the request that follows in the same process, on the same connection if that is kept.
begin early
for size in 1000 65536 65537 200000 1048576 1048576 5242880; do
    [ "$size" -le $early_bytes_max ] || break
    for flags in '--data-binary' '--header Transfer-Encoding:chunked --data-binary'; do
        # shellcheck disable=SC2086 # The flags are words.
        first=(--header 'Expect:' $flags "@$work/$size" --output /dev/null --write-out '%{http_code} ' "$base/nothing")
        second=(--header 'Expect:' --data-binary "@$work/1000" --output "$work/answer" --write-out '%{http_code}' "$base/echo")
        : >"$work/answer"
        if [ $reuses = yes ]; then
            status=$(fetch "${first[@]}" --next --silent --show-error --noproxy '*' --max-time 30 "${protocol[@]}" "${second[@]}" 2>&1)
        else
            status=$(fetch "${first[@]}" 2>&1)$(fetch "${second[@]}" 2>&1)
        fi
        that "POST /nothing of $size, then an echo" "$status" '404 200'
        same 'the echo' "$work/answer" "$work/1000"
    done
done
finish

echo 'done'
exit "$good"
