package enginerpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
)

// libraryFile is the library that this program carries.
type libraryFile struct {
	source      string
	build       build
	protocol    int
	minProtocol int
	minStored   int // the oldest protocol whose stored runs it reads
}

// build identifies one state of the library. The revision grows with every change, so builds have an order;
// the hash distinguishes builds of one revision that were made from different sources.
type build struct {
	revision int64
	hash     string
}

// String is the form in which the library names it.
func (b build) String() string { return strconv.FormatInt(b.revision, 10) + "-" + b.hash }

func parseBuild(text string) (build, error) {
	revision, hash, ok := strings.Cut(text, "-")
	n, err := strconv.ParseInt(revision, 10, 64)
	if !ok || err != nil || hash == "" {
		return build{}, fmt.Errorf("malformed build %q of the library", text)
	}
	return build{n, hash}, nil
}

// decision is how Connect handles the library that a server has.
type decision uint8

const (
	keepLibrary decision = iota
	loadFirst
	replaceLibrary
)

// libraryChecks bounds how often a server is inspected again when others load a library at the same time.
const libraryChecks = 5

// ensureLibrary makes every primary have a library that serves this program, or checks that it has, in contract mode.
func (conn *Conn) ensureLibrary(ctx context.Context) error {
	conn.load.Lock()
	defer conn.load.Unlock()
	return conn.onPrimaries(ctx, func(node rueidis.Client) error { return conn.ensureLibraryOn(ctx, node) })
}

// onPrimaries does something on every primary. In a cluster, primaries that cannot be reached are left out, unless all
// are.
func (conn *Conn) onPrimaries(ctx context.Context, do func(rueidis.Client) error) error {
	nodes := conn.client.Nodes()
	addresses := make([]string, 0, len(nodes))
	for a := range nodes {
		addresses = append(addresses, a)
	}
	slices.Sort(addresses)
	served := 0
	var unreachable error
	for _, a := range addresses {
		node := nodes[a]
		err := onPrimary(ctx, node, len(nodes) == 1, do)
		switch {
		case err == nil:
			served++
		case len(nodes) > 1 && errors.Is(err, enginecore.ErrNotReachable):
			// Its replica takes over with the library; should the node come back without, it is loaded when missed.
			unreachable = fmt.Errorf("node %s: %w", a, err)
		case len(nodes) > 1:
			return fmt.Errorf("node %s: %w", a, err)
		default:
			return err
		}
	}
	if served == 0 {
		return unreachable
	}
	return nil
}

// onPrimary does nothing on a replica, which has its primary's library and users. A lone node is taken as it is.
func onPrimary(ctx context.Context, node rueidis.Client, lone bool, do func(rueidis.Client) error) error {
	if !lone {
		primary, err := isPrimary(ctx, node)
		if err != nil || !primary {
			return err
		}
	}
	return do(node)
}

func isPrimary(ctx context.Context, node rueidis.Client) (bool, error) {
	role, err := node.Do(ctx, node.B().Role().Build()).ToArray()
	if err != nil {
		return false, connectError(err)
	}
	if len(role) == 0 {
		return false, &enginecore.DecodeError{Function: "ROLE", Problem: "empty array"}
	}
	name, err := role[0].ToString()
	return name == "master", err
}

func (conn *Conn) ensureLibraryOn(ctx context.Context, node rueidis.Client) error {
	if conn.contractOnly {
		return conn.checkContract(ctx, node)
	}
	var loadErr error
	for range libraryChecks {
		todo, err := conn.inspectLibrary(ctx, node)
		if err != nil || todo == keepLibrary {
			return err
		}
		if err := conn.probeRights(ctx, node); err != nil {
			return err
		}
		if _, err := conn.storedProtocol(ctx); err != nil {
			return err
		}
		command := loadCommand(node.B(), conn.library.source, todo == replaceLibrary)
		// Another program may have been faster: the next round checks the result, also after an error.
		if loadErr = node.Do(ctx, command).Error(); loadErr == nil {
			conn.logger.LogAttrs(ctx, slog.LevelInfo,
				"flowfabric: the program loaded the engine's library into the server",
				slog.String("event", "library.loaded"),
				slog.String("build", conn.library.build.String()), slog.Bool("replaced", todo == replaceLibrary))
		} else if server, ok := rueidis.IsRedisErr(loadErr); !ok ||
			!strings.Contains(server.Error(), "already exists") {
			if loadErr = connectError(loadErr); errors.Is(loadErr, enginecore.ErrUnauthorized) {
				loadErr = fmt.Errorf("%w: the server needs the library of this program's build %s, which a deployer has to load first",
					loadErr, conn.library.build)
			}
			return fmt.Errorf("load the library: %w", loadErr)
		} else if !strings.HasPrefix(server.Error(), "Library ") {
			return fmt.Errorf("load the library: %w: another library has its function names: %s",
				enginecore.ErrForeignLibrary, server.Error())
		}
	}
	if loadErr != nil {
		return fmt.Errorf("load the library: %w", connectError(loadErr))
	}
	return errors.New("load the library: it is replaced by other programs again and again")
}

func loadCommand(b rueidis.Builder, source string, replace bool) rueidis.Completed {
	if replace {
		return b.FunctionLoad().Replace().FunctionCode(source).Build()
	}
	return b.FunctionLoad().FunctionCode(source).Build()
}

// inspectLibrary decides how to handle the library that a server has.
func (conn *Conn) inspectLibrary(ctx context.Context, node rueidis.Client) (decision, error) {
	functions, err := listFunctions(ctx, node)
	if err != nil {
		return keepLibrary, err
	}
	if functions == nil {
		return loadFirst, nil
	}
	probe := VersionCall{}
	if !slices.Contains(functions, probe.info().name) {
		if conn.foreign {
			return replaceLibrary, nil
		}
		return keepLibrary, fmt.Errorf("%w: the server has a library named %s that is not ours; use it "+
			"as it is with ?contract=15 in the URL, or set ReplaceForeignLibrary of OpenConfig to replace it",
			enginecore.ErrForeignLibrary, lualib.Name)
	}
	w := &wire{name: probe.info().name}
	version, err := Decode(ctx, probe, node.Do(ctx, w.command(node.B())))
	if err != nil {
		return keepLibrary, fmt.Errorf("version of the server's library: %w", err)
	}
	return conn.compare(version)
}

// compare decides between this program's library and the server's. A later protocol counts for more than a later build.
func (conn *Conn) compare(server VersionReply) (decision, error) {
	have, err := parseBuild(server.Build)
	if err != nil {
		return keepLibrary, fmt.Errorf("the server's library: %w", err)
	}
	own := conn.library
	switch protocol := int64(own.protocol); {
	case server.MinProtocol > protocol:
		return keepLibrary, fmt.Errorf("%w: the server's library, build %s, serves programs of protocol %d and later; this program speaks "+
			"protocol %d, with build %s: run a newer version of it", enginecore.ErrIncompatibleLibrary, have, server.MinProtocol, protocol, own.build)
	case have == own.build, server.Protocol > protocol, server.Protocol == protocol &&
		have.revision > own.build.revision:
		return keepLibrary, nil
	}
	return replaceLibrary, nil
}

// listFunctions names the functions of the library, or is nil when the server does not have it.
func listFunctions(ctx context.Context, node rueidis.Client) ([]string, error) {
	libraries, err := node.Do(ctx, node.B().FunctionList().Libraryname(lualib.Name).Build()).ToArray()
	if err != nil {
		return nil, fmt.Errorf("list functions: %w", connectError(err))
	}
	for i := range libraries {
		library, err := libraries[i].AsMap()
		if err != nil {
			return nil, fmt.Errorf("list functions: %w", err)
		}
		if name, ok := library["library_name"]; !ok || text(&name) != lualib.Name {
			continue
		}
		names := []string{}
		listed := library["functions"]
		functions, err := listed.ToArray()
		if err != nil {
			return nil, fmt.Errorf("list functions: %w", err)
		}
		for j := range functions {
			function, err := functions[j].AsMap()
			if err != nil {
				return nil, fmt.Errorf("list functions: %w", err)
			}
			name := function["name"]
			names = append(names, text(&name))
		}
		return names, nil
	}
	return nil, nil
}

func text(m *rueidis.RedisMessage) string {
	s, err := m.ToString()
	if err != nil {
		return ""
	}
	return s
}
