// Command fetch makes sure that this checkout can start every server its tests need, by package download.
//
// With -cc it provides a C compiler instead, which the race detector cannot do without, and prints
// the value of CC to use. With -browser it provides Chromium and prints its path.
//
// If a server cannot be fetched, it reports the package to install. That is an error when CI=true; elsewhere the tests
// that need the server fail with the same report.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/flowfabric/flowfabric-go/internal/test/testserver/download"
)

func main() {
	cc := flag.Bool("cc", false, "provide a C compiler for the race detector and print its path")
	browser := flag.Bool("browser", false, "provide Chromium for the tests of the console and print its path")
	flag.Parse()
	if err := fetch(*cc, *browser); err != nil {
		fmt.Fprintln(os.Stderr, err)
		// Without a compiler no test runs at all, without a server those that need it fail.
		if *cc || os.Getenv("CI") == "true" {
			os.Exit(1)
		}
	}
}

func fetch(compiler, browser bool) error {
	get := download.Compiler
	switch {
	case browser:
		get = download.Browser
	case !compiler:
		return download.Servers()
	}
	path, err := get()
	if err == nil {
		fmt.Println(path)
	}
	return err
}
