package embedded

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"
)

// pairLibrary writes in several places per call, so that half a call shows.
var pairLibrary = lib("pair", `
	redis.call('HSET', 'left', ARGV[1], ARGV[2])
	redis.call('XADD', 'events', 'MAXLEN', '~', '50', '*', 'id', ARGV[1])
	redis.call('SADD', 'pool', ARGV[1])
	if #ARGV[1] % 2 == 0 then redis.call('SPOP', 'pool') end
	redis.call('SET', 'tmp:' .. ARGV[1], '1', 'PX', 3600000)
	redis.call('HSET', 'right', ARGV[1], ARGV[2])
	redis.call('INCR', 'count')
	return ARGV[1]`)

// childMain runs in a process of its own until it is killed. It prints the id of every call that was answered.
func childMain(dir string) int {
	ctx := context.Background()
	e, err := Open(ctx, Options{Dir: dir, Library: pairLibrary, LogLimit: 64 << 10, Logger: quiet()})
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	option := e.ClientOption()
	client, err := rueidis.NewClient(option)
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	start := os.Getenv("EMBEDDED_TEST_RUN")
	out := make(chan string, 64)
	for w := range 8 {
		go func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%s-%d-%d", start, w, i)
				value := strings.Repeat(id, 10)
				if w == 0 {
					_, err = e.fcall(ctx, "pair", nil, []string{id, value})
				} else {
					err = client.Do(ctx, client.B().Fcall().Function("pair").Numkeys(0).Arg(id, value).Build()).Error()
				}
				if err != nil {
					out <- "error " + err.Error()
					return
				}
				out <- "ack " + id
			}
		}()
	}
	w := bufio.NewWriterSize(os.Stdout, 1)
	for line := range out {
		fmt.Fprintln(w, line)
		_ = w.Flush()
	}
	return 0
}

// TestKill kills a writing process again and again: nothing that it reported as answered may be missing, and nothing
// may be there by half.
func TestKill(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	dir := t.TempDir()
	acked := map[string]bool{}
	for run, lines := range []int{40, 333, 1500, 5} {
		cmd := exec.Command(os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), "EMBEDDED_TEST_CHILD="+dir, "EMBEDDED_TEST_RUN=r"+strconv.Itoa(run))
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		sc := bufio.NewScanner(pipe)
		for n := 0; sc.Scan(); n++ {
			id, ok := strings.CutPrefix(sc.Text(), "ack ")
			if !ok {
				t.Fatal(sc.Text())
			}
			acked[id] = true
			if n == lines {
				_ = cmd.Process.Kill()
			}
		}
		_ = cmd.Wait()

		e := open(t, Options{Dir: dir})
		c := connect(t, e)
		left := pairs(c.must(t, "HGETALL", "left"))
		right := pairs(c.must(t, "HGETALL", "right"))
		for id := range acked {
			if left[id] == "" || right[id] == "" {
				t.Fatalf("run %d: %s was answered and is lost", run, id)
			}
		}
		if len(left) != len(right) || c.must(t, "GET", "count").text != strconv.Itoa(len(left)) {
			t.Fatalf("run %d: half a call survived: %d, %d, %s", run, len(left), len(right), c.must(t, "GET", "count"))
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func pairs(v value) map[string]string {
	out := map[string]string{}
	for i := 0; i+1 < len(v.elems); i += 2 {
		out[v.elems[i].text] = v.elems[i+1].text
	}
	return out
}
