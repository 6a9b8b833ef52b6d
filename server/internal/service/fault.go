package service

import (
	"fmt"

	"github.com/flowfabric/flowfabric-go/runtime/valuefault"
)

// faultAt returns an error about one part of the body.
func faultAt(pointer, format string, args ...any) error {
	return &valuefault.Error{
		Subject: "request", Faults: []valuefault.Fault{{Pointer: pointer, Message: fmt.Sprintf(format, args...)}},
	}
}
