package flowgraph

import (
	"encoding/json"
	"fmt"
)

// EncodeInput returns the stored form of a node's input, as in the JSON form of a Graph. A worker decodes it with
// DecodeInput.
func (n *Node) EncodeInput() json.RawMessage {
	w := writer{}
	w.expr(n.Input, n.Codec)
	return w.buf
}

// DecodeInput decodes the output of EncodeInput for a node with the given codec. Its error matches ErrSyntax or
// ErrConst.
func DecodeInput(data []byte, codec string) (Expr, error) {
	var stored storedExpr
	if err := json.Unmarshal(data, &stored); err != nil {
		return Expr{}, fmt.Errorf("stored input: %w: %w", ErrSyntax, err)
	}
	r := reader{}
	e := r.expr(&stored, &Position{Name: "input"}, codec)
	if err := r.faults.Err(); err != nil {
		return Expr{}, fmt.Errorf("stored input: %w", err)
	}
	return e, nil
}
