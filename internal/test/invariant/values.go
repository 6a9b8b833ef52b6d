package invariant

import "strconv"

// pauseMark is at the head of an eligible set while its lane or an activity is paused.
const pauseMark = "paused"

func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

func decimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
