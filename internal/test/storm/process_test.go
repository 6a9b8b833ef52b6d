package storm

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Environment variables of a process of the storm.
const (
	roleVariable   = "FLOWFABRIC_STORM_ROLE"
	nameVariable   = "FLOWFABRIC_STORM_NAME"
	urlVariable    = "FLOWFABRIC_STORM_URL"
	prefixVariable = "FLOWFABRIC_STORM_PREFIX"
	diaryVariable  = "FLOWFABRIC_STORM_DIARY"
	seedVariable   = "FLOWFABRIC_STORM_SEED"
	paceVariable   = "FLOWFABRIC_STORM_PACE"
)

// role is the role of a process.
type role string

const (
	worker role = "worker"
	keeper role = "keeper"
	client role = "client"
)

const partitions = 4

func TestMain(m *testing.M) {
	if r := os.Getenv(roleVariable); r != "" {
		if err := play(role(r)); err != nil {
			fmt.Fprintln(os.Stderr, r, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	enginetest.Main(m)
}

// play is the life of a process, which is killed at some moment.
func play(r role) error {
	ctx := context.Background()
	if r == embeddedServer {
		return serveEmbedded(ctx)
	}
	pace, err := time.ParseDuration(os.Getenv(paceVariable))
	if err != nil {
		return err
	}
	seed, err := strconv.ParseUint(os.Getenv(seedVariable), 10, 64)
	if err != nil {
		return err
	}
	d, err := openDiary(os.Getenv(diaryVariable))
	if err != nil {
		return err
	}
	var e *runtime.Engine
	for { // the server may be away
		e, err = runtime.Open(ctx, os.Getenv(urlVariable), runtime.OpenConfig{
			Prefix: os.Getenv(prefixVariable), Partitions: partitions, Logger: slog.New(slog.DiscardHandler),
		})
		if err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // between two attempts to connect
	}
	own := newActivities(d)
	random := rand.New(rand.NewPCG(seed, 9))
	switch r {
	case worker:
		w, err := runtime.NewWorker(e, workerConfig(random))
		if err == nil {
			err = w.Register(own.handlers()...)
		}
		if err != nil {
			return err
		}
		return w.Run(ctx)
	case keeper:
		k, err := runtime.NewKeeper(e, runtime.KeeperConfig{})
		if err != nil {
			return err
		}
		return k.Run(ctx)
	case client:
		calls, err := runtime.NewClient(e)
		if err != nil {
			return err
		}
		c := &customer{client: calls, diary: d, activities: own, name: os.Getenv(nameVariable), pace: pace}
		c.work(ctx, random)
		return nil
	}
	return fmt.Errorf("unknown role %q", r)
}

// stormLease is short, so that executions of a killed worker are taken over soon.
const stormLease = time.Second

func workerConfig(r *rand.Rand) runtime.WorkerConfig {
	lanes := [][]string{{activity.DefaultLane, "other"}, {"other", activity.DefaultLane}, {activity.DefaultLane}}[r.IntN(3)]
	return runtime.WorkerConfig{Lease: stormLease, Concurrency: 1 + r.IntN(6), Lanes: lanes, NoKeeper: r.IntN(2) == 0}
}

// process is one that is killed and replaced.
type process struct {
	role       role
	name       string
	generation int
	cmd        *exec.Cmd
}

// spawn starts the next generation of a process.
func (s *storm) spawn(t testing.TB, p *process) {
	t.Helper()
	p.generation++
	name := fmt.Sprintf("%s.%d.%d", p.name, s.round, p.generation)
	sum := fnv.New64a()
	fmt.Fprint(sum, s.seed, name)
	binary, err := os.Executable()
	require.NoError(t, err)
	p.cmd = exec.Command(cmp.Or(s.binary, binary))
	p.cmd.Env = append(os.Environ(), roleVariable+"="+string(p.role), nameVariable+"="+name, urlVariable+"="+s.url,
		prefixVariable+"="+s.bench.Prefix, diaryVariable+"="+s.path, paceVariable+"="+s.pace.String(), seedVariable+"="+strconv.FormatUint(sum.Sum64(), 10))
	p.cmd.Stderr = os.Stderr
	require.NoError(t, p.cmd.Start())
}

// kill ends a process as the kernel does when memory runs out: without a word.
func (s *storm) kill(p *process) {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	s.diary.note(entry{What: died, Pid: p.cmd.Process.Pid})
}
