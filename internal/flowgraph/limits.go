package flowgraph

// Limits of a flow. Exceeding one is a fault of kind ErrLimit with the position, the size and the limit. Names
// of flows and nodes follow activityspec.CheckName: 1 to 128 characters out of A-Z, a-z, 0-9, '.', '_' and '-'.
const (
	MaxNodes       = 10_000
	maxEdges       = 50_000
	MaxFan         = 10_000  // upstreams of one node, and nodes that depend on one
	MaxConst       = 1 << 20 // bytes of one encoded Const
	maxTags        = 64      // tags of one node, and of the flow
	maxTagKey      = 128     // bytes
	MaxTagValue    = 1024    // bytes
	maxDescription = 4096    // bytes
	MaxDepth       = 32      // nesting of List and Struct in one input
)
