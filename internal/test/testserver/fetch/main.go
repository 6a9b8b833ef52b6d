package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/flowfabric/flowfabric-go/internal/test/testserver/download"
)

func main() {
	cc := flag.Bool("cc", false, "provide a C compiler for the race detector and print its path")
	flag.Parse()
	if err := fetch(*cc); err != nil {
		fmt.Fprintln(os.Stderr, err)
		// Without a compiler no test runs at all, without a server those that need it fail.
		if *cc || os.Getenv("CI") == "true" {
			os.Exit(1)
		}
	}
}

func fetch(compiler bool) error {
	if !compiler {
		return download.Servers()
	}
	path, err := download.Compiler()
	if err == nil {
		fmt.Println(path)
	}
	return err
}
