package runtime

// Limits of a run that the client and the worker check before they send anything. In addition, the encoded definition
// of a flow has at most 8 MiB.
const (
	// MaxInput is the largest encoded input of a run: 1 MiB.
	MaxInput = 1 << 20
	// MaxResult is the largest encoded result of a node: 1 MiB.
	MaxResult = 1 << 20
	// MaxRunID is the longest run id: 256 bytes.
	MaxRunID = 256
)
