package flow

import (
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// maxFrames bounds how many calls within this package a declaration passes.
const maxFrames = 8

// place is the calls that led to a declaration, from the inside.
type place [maxFrames]uintptr

// declared records where a node is declared, or the flow for the name "".
func (b *builder) declared(name string) {
	var p place
	runtime.Callers(3, p[:])
	b.places[name] = append(b.places[name], p)
}

// String returns the file and the line of the first call outside of this package.
func (p place) String() string {
	frames := runtime.CallersFrames(p[:])
	for {
		frame, more := frames.Next()
		if !strings.HasPrefix(frame.Function, packagePath) && frame.File != "" {
			return filepath.Base(frame.File) + ":" + strconv.Itoa(frame.Line)
		}
		if !more {
			return ""
		}
	}
}

// packagePath begins the names of all functions of this package.
const packagePath = "github.com/flowfabric/flowfabric-go/flow."

// placeOf returns the place of a fault: the declaration of its node, all declarations of a name that is used twice, and
// the declaration of the flow for other faults.
func (b *builder) placeOf(f *Fault) string {
	places := b.places[f.Node]
	if len(places) == 0 {
		places = b.places[""]
	}
	if f.Kind != flowgraph.ErrDuplicateName {
		return places[len(places)-1].String()
	}
	var list []string
	for _, p := range places {
		list = append(list, p.String())
	}
	return strings.Join(list, ", ")
}
