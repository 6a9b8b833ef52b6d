package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// usesOf returns the uses of files, each given as "file: used used".
func usesOf(lines ...string) sources {
	p := sources{path: "example.com/p", uses: make(map[string]map[string]bool)}
	for _, line := range lines {
		file, used, _ := strings.Cut(line, ":")
		p.files = append(p.files, file)
		p.uses[file] = make(map[string]bool)
		for _, name := range strings.Fields(used) {
			p.uses[file][name] = true
		}
	}
	return p
}

func TestCircle(t *testing.T) {
	t.Parallel()
	apart := usesOf("a: b c", "b: c", "c:")
	require.Len(t, apart.circle(), 1)
	two := usesOf("a: b", "b: a c", "c: d", "d: e", "e: c f", "f:")
	require.Equal(t, []string{"c", "d", "e"}, two.circle())
	back := usesOf("a: b", "b: c d", "c: a", "d: a")
	require.Equal(t, []string{"a", "b", "c", "d"}, back.circle())
}

// The uses of a real package are found: the files of this one depend on each other in one direction.
func TestLoad(t *testing.T) {
	t.Parallel()
	packages, err := load([]string{"."})
	require.NoError(t, err)
	require.Len(t, packages, 1)
	require.Equal(t, map[string]bool{"circle.go": true, "load.go": true}, packages[0].uses["main.go"])
	require.Equal(t, map[string]bool{"load.go": true, "table.go": true}, packages[0].uses["circle.go"])
	require.Len(t, packages[0].circle(), 1)
}

func TestCheckOfCircles(t *testing.T) {
	t.Parallel()
	ring := make([]string, maxCircle+1)
	for i := range ring {
		ring[i] = string(rune('a'+i)) + ": " + string(rune('a'+(i+1)%len(ring)))
	}
	var out strings.Builder
	require.ErrorContains(t, check(&out, []sources{usesOf(ring...)}), "16 files depend on each other in a circle, at most 15 may")
	require.Contains(t, out.String(), " 16 of  16 files  example.com/p")
	require.NoError(t, check(&out, []sources{usesOf("a: b", "b: a")}))
}
