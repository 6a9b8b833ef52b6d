package enginerpc

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
)

// Mark states why no program may use a deployment. It is stored in the key of the protocol, in place of the number, so
// that programs that do not know marks refuse the data as well.
type Mark struct {
	State MarkState `json:"state"`
	// ID identifies the move, or is the digest of the backup.
	ID string `json:"id"`
	// Other is where the data go to or come from: a URL without its password, or the name of a file.
	Other string    `json:"other"`
	Since time.Time `json:"since"`
	// Protocol is the text of the key without the mark; empty if there was none.
	Protocol string `json:"protocol,omitempty"`
}

// MarkState is the operation that the data of a deployment are under.
type MarkState string

// The operations on data.
const (
	Leaving   MarkState = "leaving"   // they are being moved away
	Moved     MarkState = "moved"     // they were moved away
	Arriving  MarkState = "arriving"  // they are being moved here
	Restoring MarkState = "restoring" // a backup is being restored
)

// Text is the value of the key.
func (m Mark) Text() string {
	text, _ := json.Marshal(m) // it has nothing that cannot be encoded
	return string(text)
}

// ParseMark reads the value of the key; ok is false for a number.
func ParseMark(text string) (m Mark, ok bool) {
	if !strings.HasPrefix(text, "{") {
		return Mark{}, false
	}
	err := json.Unmarshal([]byte(text), &m)
	return m, err == nil && m.State != ""
}

// Err returns the reason why the data cannot be used: it wraps ErrMoved or ErrIncomplete.
func (m Mark) Err() error {
	since := m.Since.UTC().Format(time.RFC3339)
	switch m.State {
	case Leaving:
		return fmt.Errorf("%w: since %s, the data of this engine are being moved to %s: repeat flowfabric move to "+
			"finish it, or give it up with --cancel", enginecore.ErrMoved, since, m.Other)
	case Moved:
		return fmt.Errorf("%w: the data of this engine were moved to %s at %s: use that one", enginecore.ErrMoved,
			m.Other, since)
	case Arriving:
		return fmt.Errorf("%w: since %s, data are being moved here from %s: repeat flowfabric move to finish it",
			enginecore.ErrIncomplete, since, m.Other)
	case Restoring:
		return fmt.Errorf("%w: since %s, the backup %s is being restored here: repeat flowfabric backup restore to "+
			"finish it", enginecore.ErrIncomplete, since, m.Other)
	}
	return fmt.Errorf("%w: the data are marked as %q by a later version of this program, since %s",
		enginecore.ErrIncomplete, m.State, since)
}

// refuseMarked returns an error if the deployment has a mark. Once the connection is in use, every later call fails
// with it.
func (conn *Conn) refuseMarked(ctx context.Context) error {
	text, err := conn.client.Do(ctx, conn.client.B().Get().Key(conn.keys.FfxProtocol()).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("protocol of the stored data: %w", connectError(err))
	}
	if mark, marked := ParseMark(text); marked {
		return mark.Err()
	}
	return nil
}

// Log events for the reasons why every later call of a connection fails.
const (
	eventMoved        = "engine.moved"
	eventIncompatible = "library.incompatible"
)

// serveNoLonger makes every later call fail with err.
func (conn *Conn) serveNoLonger(ctx context.Context, message, event string, err error) {
	conn.outdated.once.Do(func() {
		conn.logger.LogAttrs(ctx, slog.LevelError, message, slog.String("event", event), slog.Any("error", err))
		conn.outdated.err = err
		close(conn.outdated.closed)
	})
}

// CheckProtocol returns an error that wraps ErrIncompatibleLibrary if the stored data are for later programs than this
// one. text is the value of the key of the protocol.
func CheckProtocol(text string) error {
	stored, err := strconv.Atoi(text)
	switch {
	case text == "":
		return nil
	case err != nil:
		return fmt.Errorf("protocol of the stored data: it is %q, not a number", text)
	case stored > lualib.Protocol:
		return fmt.Errorf("%w: the stored data are for programs of protocol %d and later; this program speaks "+
			"protocol %d: run a newer version of it", enginecore.ErrIncompatibleLibrary, stored, lualib.Protocol)
	}
	return nil
}
