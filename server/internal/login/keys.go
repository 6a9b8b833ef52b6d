package login

import (
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

const (
	// keysEvery is the time between two requests for the keys of a provider; keysAtOnce is the number of further
	// requests. Each ID token with an unknown key needs a request, also a forged one.
	keysEvery  = 10 * time.Second
	keysAtOnce = 2
	// discoveryPause is the time after which a provider that did not answer is queried again.
	discoveryPause = 5 * time.Second
)

// errKeysFresh is the error of a request for keys that were read a short while ago.
var errKeysFresh = errors.New("the keys of the provider were read a short while ago")

// boundedKeys bounds the requests for the keys of a provider. Others pass.
type boundedKeys struct {
	next  http.RoundTripper
	url   atomic.Pointer[string]
	again *rate.Limiter
}

func newBoundedKeys(next http.RoundTripper) *boundedKeys {
	if next == nil {
		next = http.DefaultTransport
	}
	return &boundedKeys{next: next, again: rate.NewLimiter(rate.Every(keysEvery), keysAtOnce)}
}

// RoundTrip implements http.RoundTripper.
func (b *boundedKeys) RoundTrip(r *http.Request) (*http.Response, error) {
	if url := b.url.Load(); url != nil && r.URL.String() == *url && !b.again.Allow() {
		return nil, errKeysFresh
	}
	return b.next.RoundTrip(r)
}
