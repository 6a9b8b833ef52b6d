// Command document writes the files that it generates from the table of operations: openapi.json of module server, and
// the types of the console.
//
//	go run ./internal/document
//
// It runs in the folder of module server. Tests of the server fail if the files are out of date.
package main

import (
	"fmt"
	"os"

	"github.com/flowfabric/flowfabric-go/server/internal/route"
	"github.com/flowfabric/flowfabric-go/server/internal/typescript"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	described := route.Describe("")
	text, err := described.JSON()
	if err != nil {
		return err
	}
	types, err := typescript.Types(described.OpenAPI)
	if err != nil {
		return err
	}
	if err := os.WriteFile("openapi.json", text, 0o644); err != nil {
		return err
	}
	return os.WriteFile("../console/src/api/types.ts", []byte(types), 0o644)
}
