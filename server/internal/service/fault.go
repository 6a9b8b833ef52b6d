package service

import (
	"fmt"

	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// faultAt returns an error about one part of the body.
func faultAt(pointer, format string, args ...any) error {
	return &fabrictype.ValueError{
		Subject: "request", Faults: []fabrictype.ValueFault{{Pointer: pointer, Message: fmt.Sprintf(format, args...)}},
	}
}
