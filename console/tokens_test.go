package console_test

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Texts and controls contrast with every background that they are on, in both themes: 4.5 for text, 3 for lines that
// matter (WCAG 2.2 AA).
func TestContrasts(t *testing.T) {
	t.Parallel()
	sheet, err := os.ReadFile("src/style/tokens.css")
	require.NoError(t, err)
	grounds := []string{"surface", "bg", "sunken", "hover", "pressed", "accent-soft"}
	texts := map[string][]string{
		"ink": grounds, "ink-2": grounds, "ink-3": grounds, "accent": grounds, "on-accent": {"accent"},
		"surface": {"bad", "ink"}, // buttons that destroy, and messages
	}
	for _, hue := range []string{"idle", "run", "person", "held", "lost", "ok", "bad"} {
		texts[hue] = append([]string{hue + "-soft"}, grounds...)
		texts["ink"] = append(texts["ink"], hue+"-soft")
	}
	for theme := range 2 {
		for text, on := range texts {
			for _, ground := range on {
				ratio := contrast(colour(t, sheet, text, theme), colour(t, sheet, ground, theme))
				require.GreaterOrEqual(t, ratio, 4.5, "--%s on --%s, theme %d", text, ground, theme)
			}
		}
		for _, ground := range []string{"surface", "bg"} {
			ratio := contrast(colour(t, sheet, "control-line", theme), colour(t, sheet, ground, theme))
			require.GreaterOrEqual(t, ratio, 3.0, "--control-line on --%s, theme %d", ground, theme)
		}
	}
}

// colour returns the luminance of a token in the light theme, 0, or the dark one, 1.
func colour(t *testing.T, sheet []byte, name string, theme int) float64 {
	t.Helper()
	pattern := fmt.Sprintf(`--%s: light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)`, regexp.QuoteMeta(name))
	found := regexp.MustCompile(pattern).FindSubmatch(sheet)
	require.NotNil(t, found, "--%s", name)
	n, err := strconv.ParseUint(string(found[1+theme][1:]), 16, 32)
	require.NoError(t, err)
	linear := func(c uint64) float64 {
		v := float64(c&0xff) / 255
		if v <= 0.04045 {
			return v / 12.92
		}
		return math.Pow((v+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(n>>16) + 0.7152*linear(n>>8) + 0.0722*linear(n)
}

func contrast(a, b float64) float64 { return (max(a, b) + 0.05) / (min(a, b) + 0.05) }
