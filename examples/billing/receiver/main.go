package main

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8081", "`address` to listen at")
	secret := flag.String("secret-file", "mail.secret", "`file` with the secret that `stint sink create` has printed")
	flag.Parse()
	if err := serve(*listen, *secret); err != nil {
		fmt.Fprintln(os.Stderr, "receiver:", err)
		os.Exit(1)
	}
}

func serve(listen, secretFile string) error {
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	fmt.Println("receiving at", listener.Addr())
	server := http.Server{
		Handler:           &receiver{secretFile: secretFile, now: time.Now, mail: os.Stdout, seen: map[string]bool{}},
		ReadHeaderTimeout: 10 * time.Second,
	}
	return server.Serve(listener)
}
