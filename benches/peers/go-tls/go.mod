module plimsoll/peer-go-tls

go 1.21
