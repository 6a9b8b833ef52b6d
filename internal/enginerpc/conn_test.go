package enginerpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

var prefixes atomic.Int64

// newPrefix is a key prefix of this test alone on the shared server.
func newPrefix() string {
	return fmt.Sprintf("core-%d-%d", time.Now().UnixNano()%1e9, prefixes.Add(1))
}

func clientFor(t testing.TB, addr string, change ...func(*rueidis.ClientOption)) rueidis.Client {
	t.Helper()
	o := rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true}
	for _, c := range change {
		c(&o)
	}
	client, err := rueidis.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// shared connects to the server that all tests have in common.
func shared(t testing.TB) *Conn {
	t.Helper()
	client := clientFor(t, testserver.Shared(t, testserver.Redis).Addr())
	conn, err := Connect(t.Context(), client, Options{Prefix: newPrefix()})
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// own connects to a server that this test may spoil.
func own(t testing.TB) rueidis.Client {
	t.Helper()
	return clientFor(t, testserver.Start(t, testserver.Options{Kind: testserver.Redis}).Addr())
}

func TestConnectOnEveryServer(t *testing.T) {
	t.Parallel()
	for _, kind := range testserver.Servers(t) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			client := clientFor(t, testserver.Shared(t, kind).Addr())
			conn, err := Connect(t.Context(), client, Options{Prefix: newPrefix()})
			if err != nil {
				t.Fatal(err)
			}
			v, err := conn.Version(t.Context(), VersionCall{})
			if err != nil {
				t.Fatal(err)
			}
			if v.Build != lualib.Build() || v.Protocol != lualib.Protocol || v.MinProtocol != lualib.MinProtocol {
				t.Errorf("version %+v, want build %s", v, lualib.Build())
			}
			contract, err := conn.ContractVersion(t.Context(), ContractVersionCall{})
			if err != nil || contract.Version != "15" {
				t.Errorf("contract version %+v, %v", contract, err)
			}
			now, err := conn.Now(t.Context())
			if err != nil || time.Since(now).Abs() > time.Minute {
				t.Errorf("now %v, %v", now, err)
			}
		})
	}
}

func TestConnectRefusesBadOptions(t *testing.T) {
	t.Parallel()
	client := clientFor(t, testserver.Shared(t, testserver.Redis).Addr())
	for name, o := range map[string]Options{
		"prefix":     {Prefix: "Not Allowed"},
		"long":       {Prefix: strings.Repeat("x", 33)},
		"partitions": {Prefix: newPrefix(), Partitions: keyspace.Partitioning{Flow: 1 << 17}},
	} {
		if _, err := Connect(t.Context(), client, o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := Connect(t.Context(), nil, Options{}); err == nil {
		t.Error("no client: no error")
	}
}

func TestConnectReportsFaults(t *testing.T) {
	t.Parallel()
	t.Run("unreachable", func(t *testing.T) {
		t.Parallel()
		_, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1"}, DisableCache: true})
		if err := ConnectError(err); !errors.Is(err, enginecore.ErrNotReachable) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("password", func(t *testing.T) {
		t.Parallel()
		s := testserver.Start(t, testserver.Options{Kind: testserver.Redis, Password: "right"})
		for _, password := range []string{"", "wrong"} {
			_, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr()}, Password: password, DisableCache: true})
			if err == nil {
				t.Fatalf("password %q: connected", password)
			}
			if err := ConnectError(err); !errors.Is(err, enginecore.ErrUnauthorized) {
				t.Errorf("password %q: got %v", password, err)
			}
		}
	})
	t.Run("killed", func(t *testing.T) {
		t.Parallel()
		s := testserver.Start(t, testserver.Options{Kind: testserver.Redis})
		client := clientFor(t, s.Addr())
		s.Kill()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if _, err := Connect(ctx, client, Options{}); !errors.Is(err, enginecore.ErrNotReachable) {
			t.Errorf("got %v", err)
		}
	})
}

func TestServerWithoutFunctions(t *testing.T) {
	t.Parallel()
	client := clientFor(t, testserver.Start(t, testserver.Options{Kind: testserver.Redis, Args: []string{"rename-command FUNCTION x"}}).Addr())
	if _, err := Connect(t.Context(), client, Options{}); !errors.Is(err, enginecore.ErrUnsupportedServer) {
		t.Errorf("got %v", err)
	}
}

// script is a library of ours in another build.
func script(revision int64, hash string, protocol, minProtocol int) *libraryFile {
	b := build{revision, hash}
	source := fmt.Sprintf(`#!lua name=%s
redis.register_function('%s', function() return {1, 'OK', '%s', '%d', '%d'} end)
`, lualib.Name, VersionCall{}.info().name, b, protocol, minProtocol)
	return &libraryFile{source: source, build: b, protocol: protocol, minProtocol: minProtocol}
}

func TestLibraryIsReplacedOnlyByNewer(t *testing.T) {
	t.Parallel()
	client := own(t)
	connect := func(l *libraryFile) (*Conn, error) {
		return Connect(t.Context(), client, Options{library: l})
	}
	for _, step := range []struct {
		name      string
		library   *libraryFile
		want      string
		wantError error
	}{
		{"first", script(5, "aa", 1, 1), "5-aa", nil},
		{"newer", script(6, "bb", 1, 1), "6-bb", nil},
		{"older stays away", script(4, "cc", 1, 1), "6-bb", nil},
		{"same revision from other sources", script(6, "dd", 1, 1), "6-dd", nil},
		{"next protocol that serves the last", script(7, "ee", 2, 1), "7-ee", nil},
		{"old program", script(6, "dd", 1, 1), "7-ee", nil},
		{"protocol that drops the first", script(8, "ff", 3, 2), "8-ff", nil},
		{"too old a program", script(6, "dd", 1, 1), "", enginecore.ErrIncompatibleLibrary},
		{"too old a program with a later build", script(9, "aa", 1, 1), "", enginecore.ErrIncompatibleLibrary},
		{"served protocol with a later build", script(9, "bb", 2, 2), "8-ff", nil},
		{"later protocol with an earlier build", script(7, "cc", 4, 4), "7-cc", nil},
	} {
		conn, err := connect(step.library)
		if !errors.Is(err, step.wantError) {
			t.Fatalf("%s: error %v, want %v", step.name, err, step.wantError)
		}
		if err != nil {
			continue
		}
		v, err := conn.Version(t.Context(), VersionCall{})
		if err != nil || v.Build != step.want {
			t.Fatalf("%s: build %q, want %q (%v)", step.name, v.Build, step.want, err)
		}
	}
}

// The protocol of stored data remains in force when the library is replaced.
func TestOldProgramIsRefusedByDataOfLaterProtocol(t *testing.T) {
	t.Parallel()
	client := own(t)
	later, old := script(8, "ff", 3, 2), script(9, "aa", 1, 1)
	for _, connect := range []struct {
		library *libraryFile
		want    error
	}{{old, nil}, {later, nil}, {old, enginecore.ErrIncompatibleLibrary}, {script(7, "bb", 2, 2), nil}, {script(9, "cc", 1, 1), enginecore.ErrIncompatibleLibrary}} {
		if _, err := Connect(t.Context(), client, Options{library: connect.library}); !errors.Is(err, connect.want) {
			t.Errorf("%s: got %v", connect.library.build, err)
		}
		if err := client.Do(t.Context(), client.B().FunctionFlush().Sync().Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	if stored, err := client.Do(t.Context(), client.B().Get().Key("ff:ffx:min_protocol").Build()).ToString(); err != nil || stored != "2" {
		t.Errorf("stored %q, %v", stored, err)
	}
	if err := client.Do(t.Context(), client.B().Set().Key("ff:ffx:min_protocol").Value("new").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if _, err := Connect(t.Context(), client, Options{library: later}); err == nil || !strings.Contains(err.Error(), `is "new", not a number`) {
		t.Errorf("got %v", err)
	}
}

func TestConnectKeepsForeignLibrary(t *testing.T) {
	t.Parallel()
	client := own(t)
	foreign := "#!lua name=" + lualib.Name + "\nredis.register_function('theirs', function() return 'x' end)\n"
	if err := client.Do(t.Context(), client.B().FunctionLoad().FunctionCode(foreign).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	_, err := Connect(t.Context(), client, Options{})
	if !errors.Is(err, enginecore.ErrForeignLibrary) || !strings.Contains(err.Error(), "ReplaceForeignLibrary of OpenConfig") {
		t.Fatalf("got %v", err)
	}
	if err := client.Do(t.Context(), client.B().Fcall().Function("theirs").Numkeys(0).Build()).Error(); err != nil {
		t.Errorf("the foreign library is gone: %v", err)
	}
	if _, err := Connect(t.Context(), client, Options{ReplaceForeignLibrary: true}); err != nil {
		t.Fatal(err)
	}
}

func TestFunctionNamesTakenByAnotherLibrary(t *testing.T) {
	t.Parallel()
	client := own(t)
	other := fmt.Sprintf("#!lua name=other\nredis.register_function('%s', function() return 'x' end)\n", VersionCall{}.info().name)
	if err := client.Do(t.Context(), client.B().FunctionLoad().FunctionCode(other).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if _, err := Connect(t.Context(), client, Options{}); !errors.Is(err, enginecore.ErrForeignLibrary) {
		t.Errorf("got %v", err)
	}
}

func TestManyProgramsStartAtOnce(t *testing.T) {
	t.Parallel()
	s := testserver.Start(t, testserver.Options{Kind: testserver.Redis})
	var wg sync.WaitGroup
	counts := make([]keyspace.Partitioning, 8)
	for i := range counts {
		client := clientFor(t, s.Addr())
		wg.Go(func() {
			conn, err := Connect(t.Context(), client, Options{Partitions: keyspace.Partitioning{Flow: i + 1, Budget: i + 1, Quota: i + 1}})
			if err != nil {
				t.Error(err)
				return
			}
			counts[i] = conn.Partitioning()
		})
	}
	wg.Wait()
	for _, c := range counts {
		if c != counts[0] {
			t.Fatalf("programs disagree: %v", counts)
		}
	}
}

func TestPartitionCounts(t *testing.T) {
	t.Parallel()
	client := clientFor(t, testserver.Shared(t, testserver.Redis).Addr())
	prefix := newPrefix()
	conn, err := Connect(t.Context(), client, Options{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	if want := (keyspace.Partitioning{Flow: defaultFlowPartitions, Budget: defaultBudgetPartitions, Quota: defaultQuotaPartitions}); conn.Partitioning() != want {
		t.Errorf("counts %v, want %v", conn.Partitioning(), want)
	}
	again, err := Connect(t.Context(), client, Options{Prefix: prefix, Partitions: keyspace.Partitioning{Flow: 8, Budget: 2, Quota: 2}})
	if err != nil || again.Partitioning() != conn.Partitioning() {
		t.Errorf("stored counts did not win: %v, %v", again.Partitioning(), err)
	}
	for _, bad := range []string{"0", "65537", "many"} {
		b := client.B()
		if err := client.Do(t.Context(), b.Hset().Key(conn.Keys().ConfigPartitions()).FieldValue().FieldValue(fieldFlowPartitions, bad).Build()).Error(); err != nil {
			t.Fatal(err)
		}
		if _, err := Connect(t.Context(), client, Options{Prefix: prefix}); err == nil {
			t.Errorf("count %q accepted", bad)
		}
	}
}

func TestLostLibraryIsLoadedAgain(t *testing.T) {
	t.Parallel()
	client := own(t)
	conn, err := Connect(t.Context(), client, Options{})
	if err != nil {
		t.Fatal(err)
	}
	flush := func() {
		t.Helper()
		if err := client.Do(t.Context(), client.B().FunctionFlush().Sync().Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	flush()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := conn.Version(t.Context(), VersionCall{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	flush()
	p := conn.Pipeline()
	var results []*Result[VersionReply]
	for range 20 {
		results = append(results, Add(p, VersionCall{}))
	}
	if err := p.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if v, err := r.Get(); err != nil || v.Build != lualib.Build() {
			t.Errorf("got %+v, %v", v, err)
		}
	}
}

func TestRefusalIsAnError(t *testing.T) {
	t.Parallel()
	conn := shared(t)
	flow := keyspace.FlowIDFor("test", "flow", "run")
	p, err := conn.FlowPartition(flow)
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.FlowResult(t.Context(), FlowResultCall{Partition: p, FlowID: flow})
	var refusal *enginecore.Error
	if !errors.As(err, &refusal) || !errors.Is(err, enginecore.ErrFlowNotFound) || refusal.Class() != "terminal" {
		t.Errorf("got %v", err)
	}
	c := FlowResultCall{Partition: p, FlowID: flow}
	command, err := Command(conn, c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(t.Context(), c, conn.Client().Do(t.Context(), command)); !errors.Is(err, enginecore.ErrFlowNotFound) {
		t.Errorf("Decode: %v", err)
	}
}

func TestInvalidCallsAreNotSent(t *testing.T) {
	t.Parallel()
	k := testKeys(t)
	other := keyspace.NewExecutionID(keyspace.Partition{Family: keyspace.FlowFamily, Index: 8})
	here := keyspace.Partition{Family: keyspace.FlowFamily, Index: 7}
	for name, try := range map[string]func() error{
		"no partition": func() error { _, _, _, err := Wire(k, TickCall{}); return err },
		"no id":        func() error { _, _, _, err := Wire(k, CompleteExecutionCall{}); return err },
		"malformed id": func() error { _, _, _, err := Wire(k, CompleteExecutionCall{ExecutionID: "{b:1}:x"}); return err },
		"other's id":   func() error { _, _, _, err := Wire(k, CompleteCall{Partition: here, ExecutionID: other}); return err },
		"other's leases": func() error {
			_, _, _, err := Wire(k, RenewCall{Partition: here, Leases: []RenewLease{{ExecutionID: other}}})
			return err
		},
		"other family": func() error {
			_, _, _, err := Wire(k, TickCall{Partition: keyspace.Partition{Family: keyspace.QuotaFamily, Index: 7}})
			return err
		},
		"no flow id": func() error { _, _, _, err := Wire(k, CreateFlowCall{Partition: here}); return err },
	} {
		var call *enginecore.CallError
		if err := try(); !errors.As(err, &call) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestBrokenConnection(t *testing.T) {
	t.Parallel()
	s := testserver.Start(t, testserver.Options{Kind: testserver.Redis, Persist: true})
	client := clientFor(t, s.Addr())
	conn, err := Connect(t.Context(), client, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.Kill()
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := conn.Version(short, VersionCall{}); !errors.Is(err, enginecore.ErrUnavailable) ||
		!errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("server away: %v", err)
	}
	answered := make(chan error)
	go func() {
		_, err := conn.Version(t.Context(), VersionCall{})
		answered <- err
	}()
	s.Restart()
	if err := <-answered; err != nil {
		t.Errorf("after the restart: %v", err)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = conn.Version(done, VersionCall{})
	if !errors.Is(err, context.Canceled) || err.Error() != "the engine was not called: context canceled" {
		t.Errorf("ended context: %v", err)
	}
}
