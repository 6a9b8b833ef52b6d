package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
)

// result is one run of a package's tests, a line in the file of results.
type result struct {
	at       time.Time
	took     time.Duration
	build    string
	load     int
	passed   bool
	failures []string
}

// String is the line of the result.
func (r result) String() string {
	outcome := "ok"
	if !r.passed {
		outcome = "FAIL"
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s load=%d %s %s", r.at.UTC().Format(time.RFC3339), r.build, outcome, r.load,
		r.took.Round(100*time.Millisecond), strings.Join(r.failures, " ")))
}

func parseResult(line string) (result, error) {
	words := strings.Fields(line)
	if len(words) < 5 {
		return result{}, fmt.Errorf("%q is no result", line)
	}
	at, err := time.Parse(time.RFC3339, words[0])
	took, err2 := time.ParseDuration(words[4])
	r := result{at: at, took: took, build: words[1], passed: words[2] == "ok", failures: words[5:]}
	_, err3 := fmt.Sscanf(words[3], "load=%d", &r.load)
	return r, errors.Join(err, err2, err3)
}

// resultFile is the file of the results of a package. Lines are only ever appended.
type resultFile struct{ path string }

// read returns what the file holds of one build.
func (f resultFile) read(build string) ([]result, error) {
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var found []result
	for lines := bufio.NewScanner(file); ; {
		if !lines.Scan() {
			return found, lines.Err()
		}
		r, err := parseResult(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.path, err)
		}
		if r.build == build {
			found = append(found, r)
		}
	}
}

// add appends a result, and keeps the output of a run that failed.
func (f resultFile) add(r result, output []byte, n int) error {
	if !r.passed {
		path := fmt.Sprintf("%s-%s-%d.log", strings.TrimSuffix(f.path, ".txt"), r.build, n+1)
		if err := os.WriteFile(path, output, 0o644); err != nil {
			return err
		}
	}
	file, err := os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, r)
	return errors.Join(err, file.Close())
}
