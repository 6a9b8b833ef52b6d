// Package bounds bounds how many of something a server has at a time, in sum and for each principal.
package bounds

import (
	"fmt"
	"sync"

	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// Full is the error of a Pool that has as many as it allows.
type Full struct {
	// Code identifies the exceeded bound, as in problems.
	Code string
	// Text names the bound, and Most is its number.
	Text string
	Most int
}

// Error returns the text.
func (f *Full) Error() string { return f.Text }

// Pool bounds how many of something there are. It is safe for concurrent use.
type Pool struct {
	code, things string
	sum, each    int

	mu  sync.Mutex
	all int
	of  map[string]int
}

// New returns a pool of things such as "streams": at most sum of them together, and each for one principal. code is
// the code of its Full errors.
func New(code, things string, sum, each int) *Pool {
	return &Pool{code: code, things: things, sum: sum, each: min(sum, each), of: map[string]int{}}
}

// Enter counts one for a principal until leave is called. The error is a *Full. On a server without logins, where all
// have one principal, the sum alone is a bound.
func (p *Pool) Enter(who login.Principal) (leave func(), err error) {
	id, each := who.ID(), p.each
	if who.Kind == login.None {
		each = p.sum
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.of[id] >= each && each < p.sum:
		return nil, p.full("a principal", each)
	case p.all >= p.sum:
		return nil, p.full("the server", p.sum)
	}
	p.all++
	p.of[id]++
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.all--
		if p.of[id]--; p.of[id] == 0 {
			delete(p.of, id)
		}
	}), nil
}

func (p *Pool) full(who string, most int) *Full {
	return &Full{p.code, fmt.Sprintf("%s has at most %d %s at a time; try later", who, most, p.things), most}
}
