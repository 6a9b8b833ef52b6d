package layout

// SVG returns the drawing as an SVG document. states are the states of nodes in a run, by their IDs; nil draws the
// flow alone.
func (l *Layout) SVG(states map[string]NodeState) string { return "" }
