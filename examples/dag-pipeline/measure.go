package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/flowfabric/flowfabric-go/activity"
)

// MeasureInput names one of the cuts of a tree.
type MeasureInput struct {
	Source Source `json:"source"`
	Cuts   []Cut  `json:"cuts"`
	Index  int    `json:"index"`
}

// Counts add up: the counts of a tree are the sums of the counts of its packages.
type Counts struct {
	Files     int   `json:"files"`
	Bytes     int64 `json:"bytes"`
	Lines     int   `json:"lines"`
	Comments  int   `json:"comments"` // lines that are or carry a comment
	Functions int   `json:"functions"`
	// Unparsable files are counted in Files, Bytes and Lines only.
	Unparsable int `json:"unparsable"`
}

func (c *Counts) add(o Counts) {
	c.Files += o.Files
	c.Bytes += o.Bytes
	c.Lines += o.Lines
	c.Comments += o.Comments
	c.Functions += o.Functions
	c.Unparsable += o.Unparsable
}

// Package is the Go code of one directory.
type Package struct {
	Dir string `json:"dir"`
	Counts
	// Imports is the number of different packages that are imported.
	Imports int      `json:"imports"`
	Longest Function `json:"longest"`
}

// CommentRatio is the part of the lines that are or carry a comment, from 0 to 1.
func (p Package) CommentRatio() float64 {
	if p.Lines == 0 {
		return 0
	}
	return float64(p.Comments) / float64(p.Lines)
}

// Function is a function or method by name, with the place of its declaration.
type Function struct {
	Name  string `json:"name"`
	File  string `json:"file"`
	Line  int    `json:"line"`
	Lines int    `json:"lines"`
}

// Broken is a file that does not parse.
type Broken struct {
	File   string `json:"file"`
	Reason string `json:"reason"`
}

const (
	// maxSource is the largest file that is parsed, in bytes.
	maxSource = 16 << 20
	// maxText bounds names and reasons from the sources, in bytes, because results have a limit too.
	maxText = 200
)

// Measure parses the files of one cut. Files that do not parse are counted and named; they do not fail the node.
func Measure(ctx context.Context, in MeasureInput) (Summary, error) {
	if in.Index < 0 || in.Index >= len(in.Cuts) {
		return Summary{}, activity.NonRetryable(fmt.Errorf("there is no cut %d, only %d", in.Index, len(in.Cuts)))
	}
	return measureTree(ctx, os.DirFS(in.Source.Root), in.Cuts[in.Index])
}

func measureTree(ctx context.Context, tree fs.FS, part Cut) (Summary, error) {
	var sum Summary
	if part.Files == 0 {
		return sum, nil
	}
	var pace pace
	err := walk(tree, part.From, part.Before, func(dir string, entries []fs.DirEntry, err error) error {
		if err != nil && dir == root {
			return fmt.Errorf("read the tree: %w", err)
		}
		p := newSurvey(tree, dir)
		for _, entry := range entries {
			if !isGo(entry) {
				continue
			}
			p.file(entry.Name())
			err := pace.report(ctx, percent(sum.Bytes+p.Bytes, part.Bytes), func() string {
				return fmt.Sprintf("%s of %s files, %s", thousands(sum.Files+p.Files), thousands(part.Files), dir)
			})
			if err != nil {
				return err
			}
		}
		if p.Files > 0 {
			p.Imports = len(p.imports)
			sum.add(Summary{
				Packages: 1, Counts: p.Counts, Leaders: []Package{p.Package}, Longest: p.functions, Broken: p.broken,
			})
		}
		return nil
	})
	return sum, err
}

// percent is how much of all is done, below 100: the tree may have grown since the scan.
func percent(done, all int64) float64 {
	if all <= 0 {
		return 0
	}
	return min(99, 100*float64(done)/float64(all))
}

// survey measures one package.
type survey struct {
	Package
	tree      fs.FS
	dir       string // Package.Dir may be clipped
	imports   map[string]struct{}
	functions []Function
	broken    []Broken
}

func newSurvey(tree fs.FS, dir string) *survey {
	return &survey{Package: Package{Dir: clip(dir)}, tree: tree, dir: dir, imports: make(map[string]struct{})}
}

// file adds one file.
func (s *survey) file(base string) {
	name := path.Join(s.dir, base)
	s.Files++
	source, err := readSource(s.tree, name)
	s.Bytes += int64(len(source))
	s.Lines += countLines(source)
	if err != nil {
		s.reject(name, err)
		return
	}
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		s.reject(name, err)
		return
	}
	s.Comments += commentLines(positions, file)
	for _, spec := range file.Imports {
		s.imports[spec.Path.Value] = struct{}{}
	}
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok {
			s.function(positions, name, f)
		}
	}
}

func (s *survey) function(positions *token.FileSet, name string, f *ast.FuncDecl) {
	// //line directives would lead to the file that this one was generated from.
	begin, end := positions.PositionFor(f.Pos(), false), positions.PositionFor(f.End(), false)
	found := Function{Name: clip(functionName(f)), File: clip(name), Line: begin.Line, Lines: end.Line - begin.Line + 1}
	s.Functions++
	s.functions = append(s.functions, found)
	if found.Lines > s.Longest.Lines {
		s.Longest = found
	}
}

func (s *survey) reject(name string, err error) {
	s.Unparsable++
	reason := err.Error()
	var list scanner.ErrorList
	if errors.As(err, &list) && len(list) > 0 {
		reason = fmt.Sprintf("line %d: %s", list[0].Pos.Line, list[0].Msg)
	}
	s.broken = append(s.broken, Broken{File: clip(name), Reason: clip(reason)})
}

var errTooLarge = errors.New("too large to parse")

// readSource reads a file. Of one that is too large it returns the first part.
func readSource(tree fs.FS, name string) ([]byte, error) {
	f, err := tree.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	source, err := io.ReadAll(io.LimitReader(f, maxSource+1))
	if err == nil && len(source) > maxSource {
		err = errTooLarge
	}
	return source, err
}

// functionName writes methods as Type.Method.
func functionName(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}
	receiver := f.Recv.List[0].Type
	for {
		switch t := receiver.(type) {
		case *ast.StarExpr:
			receiver = t.X
		case *ast.ParenExpr:
			receiver = t.X
		case *ast.IndexExpr:
			receiver = t.X
		case *ast.IndexListExpr:
			receiver = t.X
		case *ast.Ident:
			return t.Name + "." + f.Name.Name
		default:
			return f.Name.Name
		}
	}
}

// commentLines counts the lines that are or carry a comment, each once.
func commentLines(positions *token.FileSet, file *ast.File) int {
	count, last := 0, 0
	for _, group := range file.Comments {
		for _, comment := range group.List {
			begin := max(positions.PositionFor(comment.Pos(), false).Line, last+1)
			end := positions.PositionFor(comment.End(), false).Line
			if end >= begin {
				count += end - begin + 1
				last = end
			}
		}
	}
	return count
}

// countLines counts a last line without a line break too.
func countLines(source []byte) int {
	n := bytes.Count(source, []byte("\n"))
	if len(source) > 0 && source[len(source)-1] != '\n' {
		n++
	}
	return n
}

// clip cuts a text to maxText bytes, at a character.
func clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}
