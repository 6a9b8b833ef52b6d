package approvals

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// ErrInvalid matches errors about a Config.
var ErrInvalid = errors.New("invalid configuration of an approval handler")

// Choice is an answer that a visitor can give.
type Choice struct {
	// Signal is the name of the signal that the answer sends. It follows the rule of names of package activity.
	Signal string
	// Label is the text for the visitor.
	Label string
}

// Config configures a Handler. The zero value suits a server that visitors reach without a proxy.
type Config struct {
	// Choices are the answers. Defaults to "approve" and "reject".
	Choices []Choice
	// Title is the name of the application, in the title of every page. Defaults to "Approval".
	Title string
	// Question returns the sentence that describes the decision to the visitor, "" for none. It is called with the
	// unverified token of the link: unless the function verifies the token, anyone with an invented token can read the
	// sentence. Defaults to none.
	Question func(r *http.Request, token activity.Token) string
	// Identity returns the visitor's name, from a session or a client certificate for example; ok is false for a
	// visitor who is not authorised, and the page reports that. By default the page has a field for the name, which is
	// not verified: then one person can answer under two names.
	Identity func(*http.Request) (name string, ok bool)
	// RemoteAddress returns the origin of a request, for the rate limit: when a proxy forwards requests it is in a
	// header, which only the proxy may set. Defaults to the address of the connection, of IPv6 the first 64 bits.
	RemoteAddress func(*http.Request) string
	// AddressBurst and AddressEvery are how many requests an address may make: a burst at once, and then one in every
	// interval. They default to 30 and 2 seconds.
	AddressBurst int
	AddressEvery time.Duration
	// LinkBurst and LinkEvery are how many answers one link may be sent: a burst at once, and then one in every
	// interval. They default to 10 and 5 seconds.
	LinkBurst int
	LinkEvery time.Duration
	// Key protects the forms. Processes that share the links of one address need the same key, of 32 bytes at least and
	// random. By default each handler makes one, and forms that were open when its process ends have to be sent twice.
	Key []byte
	// HTTPS declares that visitors use https although the handler gets plain requests from a proxy: the cookie is
	// marked Secure, and its name makes browsers accept it from this host only.
	HTTPS bool
	// Logger receives the answers of visitors and errors. It never receives a token. Defaults to slog.Default().
	Logger *slog.Logger
}

// minKey is the least length of a key in bytes.
const minKey = 32

// complete returns the config with its defaults. The error joins everything that is wrong.
func (c Config) complete() (Config, error) {
	if c.Choices == nil {
		c.Choices = []Choice{{Signal: "approve", Label: "Approve"}, {Signal: "reject", Label: "Reject"}}
	}
	c.Title = cmp.Or(c.Title, "Approval")
	if c.RemoteAddress == nil {
		c.RemoteAddress = connection
	}
	c.AddressBurst, c.AddressEvery = cmp.Or(c.AddressBurst, 30), cmp.Or(c.AddressEvery, 2*time.Second)
	c.LinkBurst, c.LinkEvery = cmp.Or(c.LinkBurst, 10), cmp.Or(c.LinkEvery, 5*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	err := c.check()
	if c.Key = slices.Clone(c.Key); c.Key == nil {
		c.Key = make([]byte, minKey)
		_, _ = rand.Read(c.Key) // never fails: it ends the process instead
	}
	return c, err
}

func (c Config) check() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...))
	}
	if len(c.Choices) == 0 {
		fault("Choices is empty")
	}
	seen := make(map[string]bool, len(c.Choices))
	for _, choice := range c.Choices {
		if err := activityspec.CheckName(choice.Signal); err != nil {
			fault("Choices: %w", err)
		}
		if strings.TrimSpace(choice.Label) == "" {
			fault("Choices: %q has no label", choice.Signal)
		}
		if seen[choice.Signal] {
			fault("Choices: %q is there twice", choice.Signal)
		}
		seen[choice.Signal] = true
	}
	limit := func(name string, burst int, every time.Duration) {
		if burst < 0 || every < 0 {
			fault("%sBurst and %sEvery must not be negative, got: %d and %s", name, name, burst, every)
		}
	}
	limit("Address", c.AddressBurst, c.AddressEvery)
	limit("Link", c.LinkBurst, c.LinkEvery)
	if c.Key != nil && len(c.Key) < minKey {
		fault("Key must have %d bytes at least, got: %d", minKey, len(c.Key))
	}
	return errors.Join(faults...)
}

// connection is the address of the connection. A visitor with one IPv6 address has 2^64 of them, so these count as one.
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
