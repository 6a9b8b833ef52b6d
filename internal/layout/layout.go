package layout

// Layout contains the positions of the parts of a drawing, in pixels from the upper left corner. Its order is
// significant: nodes by their layers and positions in them, edges by their targets.
type Layout struct {
	// Name, Description, Input and Result come from the Graph.
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Input       string `json:"input,omitempty"`
	Result      string `json:"result,omitempty"`
	// Direction is the direction of the edges.
	Direction Direction `json:"direction"`
	// Width and Height include the margin of 12 pixels around the drawing.
	Width  float64 `json:"width"`
	Height float64 `json:"height"`
	// Nodes are the nodes, those in groups included, and the marks of Start and End.
	Nodes []Box `json:"nodes"`
	// Edges are the edges between Nodes and Groups.
	Edges []Line `json:"edges"`
	// Groups are the nodes that are open, outer ones before those inside them.
	Groups []Group `json:"groups,omitempty"`
}

// Direction is where edges lead to.
type Direction string

// The directions.
const (
	Right Direction = "right"
	Down  Direction = "down"
)

// Box is a node in a Layout.
type Box struct {
	// ID is the name of the node, after the names of the open nodes around it: "pipeline/load".
	ID   string `json:"id"`
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
	// Text, Join, Finally and Count come from the Node. Count of a Fold is the number of its nodes.
	Text    string `json:"text,omitempty"`
	Join    string `json:"join,omitempty"`
	Finally bool   `json:"finally,omitempty"`
	Count   int    `json:"count,omitempty"`
	// CanOpen reports whether the node is a Fold or has an inner flow: Open draws its content.
	CanOpen bool `json:"can_open,omitempty"`
	// Of is the kind of the nodes of a Fold, and Members are their IDs in the order of their declaration.
	Of      Kind     `json:"of,omitempty"`
	Members []string `json:"members,omitempty"`
	// Group is the ID of the open node around it; "" for nodes of the flow itself.
	Group string `json:"group,omitempty"`
	// Layer is the number of the layer in the flow of the node, from 0.
	Layer int `json:"layer"`
	// X and Y are the upper left corner.
	X float64 `json:"x"`
	Y float64 `json:"y"`
	W float64 `json:"w"`
	H float64 `json:"h"`
}

// Group is a node that is open: its nodes are inside.
type Group struct {
	ID    string  `json:"id"`
	Name  string  `json:"name"`
	Kind  Kind    `json:"kind"`
	Text  string  `json:"text,omitempty"`
	Join  string  `json:"join,omitempty"`
	Group string  `json:"group,omitempty"`
	Layer int     `json:"layer"`
	X     float64 `json:"x"`
	Y     float64 `json:"y"`
	W     float64 `json:"w"`
	H     float64 `json:"h"`
}

// Line is an edge in a Layout.
type Line struct {
	// From and To are IDs of nodes or groups.
	From string   `json:"from"`
	To   string   `json:"to"`
	Kind EdgeKind `json:"kind"`
	Case string   `json:"case,omitempty"`
	Data bool     `json:"data,omitempty"`
	// Count is the number of edges that the line represents, between folds; at least 1.
	Count int `json:"count"`
	// Points are the ends and corners of the line, at least two: from the border of From to the border of To.
	// Successive points differ in one coordinate.
	Points []Point `json:"points"`
	// Label is the text at the end of the line: the case, or the outcome if that is not success. Lines to one node with
	// the same label have it once. LabelAt is the middle of the text; nil without a label.
	Label   string `json:"label,omitempty"`
	LabelAt *Point `json:"label_at,omitempty"`
}

// Point is a position in a drawing.
type Point struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// Option changes how a graph is laid out.
type Option func(*settings)

type settings struct {
	direction  Direction
	open       map[string]bool
	foldBeyond int
	fitText    bool
	nodeWidth  float64
	wrap       float64
}

// DefaultFoldBeyond is how many nodes that are alike are drawn one by one.
const DefaultFoldBeyond = 12

// NodeWidth and NodeHeight are the size of nodes in pixels, unless FitText sets another width. Nodes with more than
// three labelled edges are higher.
const (
	NodeWidth  = 134.0
	NodeHeight = 46.0
)

// TopDown lets edges lead from the top down instead of from left to right.
func TopDown() Option { return func(s *settings) { s.direction = Down } }

// Open draws the content of the nodes with these IDs: the flow that a node runs, or the members of a Fold. IDs that the
// drawing does not have are ignored. A Fold is open if its ID or the ID of one of its members is given.
func Open(ids ...string) Option {
	return func(s *settings) {
		for _, id := range ids {
			s.open[id] = true
		}
	}
}

// FoldBeyond folds nodes that are alike into one if they are more than n, in place of DefaultFoldBeyond; 0 never folds.
// Nodes are alike that are the same in Kind and Text, and that have upstreams and downstreams that are alike: the
// parts of a fan-out, or the steps of many equal pipelines.
func FoldBeyond(n int) Option { return func(s *settings) { s.foldBeyond = n } }

// FitText makes all nodes as wide as the longest name or text of a node needs, from NodeWidth to 210 pixels.
func FitText() Option { return func(s *settings) { s.fitText = true } }

// Wrap continues a drawing from left to right that would be wider than so many pixels in further rows, below the first
// one. 0 draws one row. A drawing with TopDown has one row.
func Wrap(width float64) Option { return func(s *settings) { s.wrap = width } }

// New lays out a graph. The error matches ErrGraph.
func New(g Graph, opts ...Option) (*Layout, error) {
	s := settings{
		direction: Right, open: make(map[string]bool), foldBeyond: DefaultFoldBeyond, nodeWidth: NodeWidth,
	}
	for _, opt := range opts {
		opt(&s)
	}
	if s.fitText {
		s.nodeWidth = fittingWidth(&g)
	}
	return s.layout(&g)
}

// NodeState is the part of a node's state in a run that is drawn.
type NodeState struct {
	State State
	// Text is the line below the name, such as "187 of 240 items"; "" draws the text of the State.
	Text string
	// Progress counts the parts that the node runs: the items of a map, the nodes of a sub-flow. The zero value draws
	// none. The progress of a Fold is computed from the states of its members.
	Progress Progress
}

// Progress is how far several executions are. Those that are in none of the three counts wait.
type Progress struct {
	Succeeded, Failed, Running, Total int
}

// State is the state of a node in a drawing.
type State string

// The states.
const (
	NotStarted State = "not_started"
	Queued     State = "queued"
	Running    State = "running"
	// WaitingForPerson is a waitpoint for a person or a signal.
	WaitingForPerson State = "waiting_for_person"
	Delayed          State = "delayed"
	Retrying         State = "retrying"
	Blocked          State = "blocked"
	Paused           State = "paused"
	NoWorker         State = "no_worker"
	Succeeded        State = "succeeded"
	Failed           State = "failed"
	Cancelled        State = "cancelled"
	Skipped          State = "skipped"
	Expired          State = "expired"
)
