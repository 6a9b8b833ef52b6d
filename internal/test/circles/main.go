package main

import (
	"fmt"
	"os"
)

func main() {
	packages, err := load(os.Args[1:])
	if err == nil {
		err = check(os.Stdout, packages)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "circles:", err)
		os.Exit(1)
	}
}
