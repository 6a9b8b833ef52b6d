package approvals

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// ErrOption marks an option of New that makes no sense.
var ErrOption = errors.New("bad option of an approval handler")

// Choice is an answer that a visitor can give.
type Choice struct {
	// Signal is the name of the signal that the answer sends. It follows the rule of names of package activity.
	Signal string
	// Label is the text for the visitor.
	Label string
}

// Option adjusts New.
type Option func(*config)

type config struct {
	choices  []Choice
	title    string
	question func(*http.Request, activity.Token) string
	identity func(*http.Request) (string, bool)
	address  func(*http.Request) string
	key      []byte
	https    bool
	logger   *slog.Logger
	now      func() time.Time

	addressEvery, tokenEvery time.Duration
	addressBurst, tokenBurst int
	faults                   []error
}

// Choices replaces the answers. Defaults to "approve" and "reject".
func Choices(choices ...Choice) Option { return func(c *config) { c.choices = choices } }

// Title is the name of the application, in the title of every page. Defaults to "Approval".
func Title(text string) Option { return func(c *config) { c.title = text } }

// Question returns the sentence that describes the decision to the visitor, "" for none. It is called with the
// unverified token of the link: unless the function verifies the token, anyone with an invented token can read the
// sentence. Defaults to none.
func Question(ask func(r *http.Request, token activity.Token) string) Option {
	return func(c *config) { c.question = ask }
}

// Identity returns the visitor's name, from a session or a client certificate for example; ok is false for a visitor
// who is not authorised, and the page reports that. By default the page asks for a name and does not verify it: then
// one person can answer under two names.
func Identity(who func(*http.Request) (name string, ok bool)) Option {
	return func(c *config) { c.identity = who }
}

// RemoteAddress returns the origin of a request, for the rate limit: behind a proxy it is in a header, which only the
// proxy may set. Defaults to the address of the connection, of IPv6 the first 64 bits.
func RemoteAddress(from func(*http.Request) string) Option {
	return func(c *config) { c.address = from }
}

// AddressLimit is how many requests an address may make: burst at once, and then one in every interval. Defaults to 30
// and 2 seconds.
func AddressLimit(burst int, every time.Duration) Option {
	return func(c *config) { c.addressBurst, c.addressEvery = burst, every }
}

// TokenLimit is how many answers one link may be sent: burst at once, and then one in every interval. Defaults to 10
// and 5 seconds.
func TokenLimit(burst int, every time.Duration) Option {
	return func(c *config) { c.tokenBurst, c.tokenEvery = burst, every }
}

// minKey is the least length of a key in bytes.
const minKey = 32

// Key protects the forms. Processes that share the links of one address need the same key, of 32 bytes at least and
// random. By default each handler makes one, and forms that were open when its process ends have to be sent twice.
func Key(key []byte) Option {
	return func(c *config) {
		if len(key) < minKey {
			c.faults = append(c.faults, fmt.Errorf("%w: key has %d bytes, must have %d at least", ErrOption, len(key),
				minKey))
		}
		c.key = append([]byte(nil), key...)
	}
}

// HTTPS declares that visitors use https although the handler gets plain requests from a proxy: the cookie is marked
// Secure, and its name makes browsers accept it from this host only.
func HTTPS() Option { return func(c *config) { c.https = true } }

// Logger receives what visitors answer, and what fails. It never sees a token. Defaults to slog.Default().
func Logger(l *slog.Logger) Option { return func(c *config) { c.logger = l } }

func newConfig(opts []Option) (config, error) {
	c := config{
		choices: []Choice{{Signal: "approve", Label: "Approve"}, {Signal: "reject", Label: "Reject"}},
		title:   "Approval", address: connection, logger: slog.Default(), now: time.Now,
		addressEvery: 2 * time.Second, addressBurst: 30, tokenEvery: 5 * time.Second, tokenBurst: 10,
	}
	for i, opt := range opts {
		if opt == nil {
			c.faults = append(c.faults, fmt.Errorf("%w: option %d is nil", ErrOption, i+1))
			continue
		}
		opt(&c)
	}
	c.check()
	if c.key == nil {
		c.key = make([]byte, minKey)
		_, _ = rand.Read(c.key) // never fails: it ends the process instead
	}
	return c, errors.Join(c.faults...)
}

// check records faults.
func (c *config) check() {
	fault := func(format string, args ...any) {
		c.faults = append(c.faults, fmt.Errorf("%w: "+format, append([]any{ErrOption}, args...)...))
	}
	if len(c.choices) == 0 {
		fault("there is no choice")
	}
	seen := make(map[string]bool, len(c.choices))
	for _, choice := range c.choices {
		if err := activityspec.CheckName(choice.Signal); err != nil {
			fault("choice: %w", err)
		}
		if strings.TrimSpace(choice.Label) == "" {
			fault("choice %q has no label", choice.Signal)
		}
		if seen[choice.Signal] {
			fault("choice %q is there twice", choice.Signal)
		}
		seen[choice.Signal] = true
	}
	limit := func(name string, burst int, every time.Duration) {
		if burst < 1 || every <= 0 {
			fault("%s limit of %d and one every %s: both must be positive", name, burst, every)
		}
	}
	limit("address", c.addressBurst, c.addressEvery)
	limit("token", c.tokenBurst, c.tokenEvery)
	if c.address == nil {
		fault("remote address function is nil")
	}
	if c.logger == nil {
		fault("logger is nil")
	}
}

// connection is the address of the connection. Whoever has one IPv6 address has 2^64 of them, so these count as one.
func connection(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if address = address.Unmap().WithZone(""); address.Is6() {
		if prefix, err := address.Prefix(64); err == nil {
			return prefix.String()
		}
	}
	return address.String()
}
