package netbound

// mostConnections is the bound of a listener where descriptors do not matter.
const mostConnections = 10_000

// MostConnections is how many connections a listener has by default: 10,000, but at most half of the descriptors that
// the process may open, so that the other half is there for the engine and for files.
func MostConnections() int { return max(1, min(mostConnections, descriptors()/2)) }
