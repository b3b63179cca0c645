package main

import (
	"flag"
	"log"
	"net/http"
	"strings"
	"time"

	"github.com/stint-io/stint/client"
)

func main() {
	nodes := flag.String("stint", "http://127.0.0.1:7400", "nodes of stint, separated by commas")
	listen := flag.String("listen", "127.0.0.1:8080", "where to serve")
	proxies := flag.String("proxies", "", "networks of the proxies in front, separated by commas")
	flag.Parse()

	limits, err := client.New(client.Config{Addresses: strings.Split(*nodes, ",")})
	if err != nil {
		log.Fatal(err)
	}
	defer limits.Close()
	var trusted []string
	if *proxies != "" {
		trusted = strings.Split(*proxies, ",")
	}
	server := http.Server{Addr: *listen, Handler: site(limits, trusted...), ReadHeaderTimeout: 10 * time.Second}
	log.Printf("serving at http://%s/", *listen)
	log.Fatal(server.ListenAndServe())
}
