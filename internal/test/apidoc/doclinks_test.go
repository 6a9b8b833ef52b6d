package apidoc

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// module is the import path in front of all packages of the repository.
const module = "github.com/flowfabric/flowfabric-go"

// docLink matches a name in brackets in a comment: Name, Name.Member, package.Name or import/path.Name. It does not
// match a single word in lower case, as brackets also contain indexes and placeholders.
var docLink = regexp.MustCompile(`(?:^|[\s("',])\[\*?((?:(?:[a-z][\w.-]*/)*[a-z]\w*\.)?[A-Z]\w*(?:\.\w+)?|[a-z]\w*\.\w+)\](?:$|[\s)"',.:;!?])`)

// otherName matches words that can only be names: words with a capital letter after a small one.
var otherName = regexp.MustCompile(`^\w*[a-z]\w*[A-Z]\w*$`)

// TestDocLinks fails on names in brackets in comments that neither the package of the comment nor the package before
// the name declares, and on doc comments that begin with a name other than the documented one.
func TestDocLinks(t *testing.T) {
	t.Parallel()
	table := symbolTable{packages: make(map[string]*symbols)}
	dirs := make(map[string]bool)
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")) {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".go") {
			dirs[filepath.Dir(path)] = true
		}
		return nil
	}))
	links := 0
	for dir := range dirs {
		pkg := table.load(dir, true)
		for _, fault := range pkg.misnamed {
			t.Error(fault)
		}
		for _, comment := range pkg.comments {
			for _, match := range docLink.FindAllStringSubmatch(comment.text, -1) {
				links++
				if !table.resolves(pkg, match[1]) {
					t.Errorf("%s: [%s] names nothing", comment.at, match[1])
				}
			}
		}
	}
	require.NotZero(t, links)
}

// TestDocLinkResolution checks which names resolve in the comments of a package.
func TestDocLinkResolution(t *testing.T) {
	t.Parallel()
	table := symbolTable{packages: make(map[string]*symbols)}
	pkg := table.load(filepath.Join(root, "runtime"), true)
	for name, want := range map[string]bool{
		"Client": true, "Client.Close": true, "encoding/json.Unmarshaler": true, "OpenConfig.Logger": true, "context.Canceled": true, "flow.Builder": true,
		"Client.Absent": false, "Absent": false, "context.Absent": false, "absent.Client": false,
	} {
		require.Equal(t, want, table.resolves(pkg, name), name)
	}
}

// comment is the text of a line of a comment and its position.
type comment struct{ at, text string }

// symbols are the names that comments of one package can refer to.
type symbols struct {
	names    map[string]bool     // package-level names, and Type.Member
	embedded map[string][]string // the types that each type embeds, as Name or package.Name
	imports  map[string]string   // import paths by the name that files use
	comments []comment
	misnamed []string // faults: doc comments that begin with another name
}

// symbolTable holds the symbols of packages by directory.
type symbolTable struct{ packages map[string]*symbols }

// load reads the package of a directory, with its tests and comments if it is to be checked itself.
func (s symbolTable) load(dir string, checked bool) *symbols {
	key := dir + " " + strconv.FormatBool(checked)
	if found := s.packages[key]; found != nil {
		return found
	}
	pkg := &symbols{names: make(map[string]bool), embedded: make(map[string][]string), imports: make(map[string]string)}
	s.packages[key] = pkg
	paths, _ := filepath.Glob(filepath.Join(dir, "*.go"))
	for _, path := range paths {
		if !checked && strings.HasSuffix(path, "_test.go") {
			continue
		}
		mode := parser.SkipObjectResolution
		if checked {
			mode |= parser.ParseComments
		}
		files := token.NewFileSet()
		if file, err := parser.ParseFile(files, path, nil, mode); err == nil {
			pkg.add(files, file)
		}
	}
	return pkg
}

// add reads the names, imports and comments of a file.
func (p *symbols) add(files *token.FileSet, file *ast.File) {
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		name := path[strings.LastIndex(path, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		p.imports[name] = path
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			p.checkDoc(files, d.Doc, d.Name)
			if d.Recv == nil {
				p.names[d.Name.Name] = true
			} else {
				p.names[typeName(d.Recv.List[0].Type)+"."+d.Name.Name] = true
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				p.declare(files, spec)
				if !d.Lparen.IsValid() {
					p.checkDoc(files, d.Doc, declared(spec)...)
				}
			}
		}
	}
	for _, group := range file.Comments {
		for _, c := range group.List {
			p.comments = append(p.comments, comment{files.Position(c.Pos()).String(), c.Text})
		}
	}
}

// declared returns the names of a declaration.
func declared(spec ast.Spec) []*ast.Ident {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		return s.Names
	case *ast.TypeSpec:
		return []*ast.Ident{s.Name}
	}
	return nil
}

// checkDoc adds a fault if the doc comment of a declaration with these names begins with another name, or with one of
// these names in another spelling.
func (p *symbols) checkDoc(files *token.FileSet, doc *ast.CommentGroup, names ...*ast.Ident) {
	words := strings.Fields(doc.Text())
	if len(words) == 0 || len(names) == 0 {
		return
	}
	word := strings.Trim(words[0], ",.:'")
	fault := otherName.MatchString(word)
	for _, name := range names {
		if word == name.Name {
			return
		}
		fault = fault || strings.EqualFold(word, name.Name)
	}
	if fault {
		p.misnamed = append(p.misnamed, fmt.Sprintf("%s: the comment of %s begins with %s",
			files.Position(doc.Pos()), names[0].Name, word))
	}
}

// declare adds the names of a declaration, and the members of a type.
func (p *symbols) declare(files *token.FileSet, spec ast.Spec) {
	for _, name := range declared(spec) {
		p.names[name.Name] = true
	}
	switch s := spec.(type) {
	case *ast.ValueSpec:
		p.checkDoc(files, s.Doc, s.Names...)
	case *ast.TypeSpec:
		p.checkDoc(files, s.Doc, s.Name)
		var members *ast.FieldList
		switch t := s.Type.(type) {
		case *ast.StructType:
			members = t.Fields
		case *ast.InterfaceType:
			members = t.Methods
		default:
			if s.Assign.IsValid() {
				p.embedded[s.Name.Name] = []string{typeName(t)}
			}
			return
		}
		for _, member := range members.List {
			p.checkDoc(files, member.Doc, member.Names...)
			for _, name := range member.Names {
				p.names[s.Name.Name+"."+name.Name] = true
			}
			if len(member.Names) == 0 {
				of := typeName(member.Type)
				p.names[s.Name.Name+"."+of[strings.LastIndex(of, ".")+1:]] = true
				p.embedded[s.Name.Name] = append(p.embedded[s.Name.Name], of)
			}
		}
	}
}

// typeName returns the name of a type without pointer and type arguments.
func typeName(of ast.Expr) string {
	switch t := of.(type) {
	case *ast.Ident:
		return t.Name
	case *ast.StarExpr:
		return typeName(t.X)
	case *ast.IndexExpr:
		return typeName(t.X)
	case *ast.IndexListExpr:
		return typeName(t.X)
	case *ast.SelectorExpr:
		return typeName(t.X) + "." + t.Sel.Name
	}
	return ""
}

// resolves reports whether a comment of the package can name it: as a name of the package, a member of one of its
// types, or a name of a package that one of its files imports.
func (s symbolTable) resolves(pkg *symbols, name string) bool {
	if s.declares(pkg, name) {
		return true
	}
	slash := strings.LastIndex(name, "/") + 1
	last, rest, ok := strings.Cut(name[slash:], ".")
	if !ok {
		return false
	}
	other := s.imported(pkg, name[:slash]+last)
	return other != nil && s.declares(other, rest)
}

// declares reports whether the package has the name, or the type in front of the dot has or embeds the member.
func (s symbolTable) declares(pkg *symbols, name string) bool {
	if pkg.names[name] {
		return true
	}
	of, member, ok := strings.Cut(name, ".")
	if !ok {
		return false
	}
	for _, embedded := range pkg.embedded[of] {
		from, base := pkg, embedded
		if before, after, qualified := strings.Cut(embedded, "."); qualified {
			from, base = s.imported(pkg, before), after
		}
		if from == nil {
			continue
		}
		if s.declares(from, base+"."+member) {
			return true
		}
	}
	return false
}

// imported returns the package of a name in front of a dot, or nil.
func (s symbolTable) imported(pkg *symbols, name string) *symbols {
	path, ok := pkg.imports[name]
	if !ok && !strings.Contains(name, "/") {
		return nil
	}
	if !ok {
		path = name
	}
	if within, ok := strings.CutPrefix(path, module+"/"); ok {
		return s.load(filepath.Join(root, filepath.FromSlash(within)), false)
	}
	if dir := filepath.Join(goRoot(), "src", filepath.FromSlash(path)); isDir(dir) {
		return s.load(dir, false)
	}
	if found, err := build.Import(path, root, 0); err == nil {
		return s.load(found.Dir, false)
	}
	return nil
}

// goRoot is where the sources of the standard library are.
var goRoot = sync.OnceValue(func() string {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		panic(fmt.Sprintf("go env GOROOT: %v", err))
	}
	return strings.TrimSpace(string(out))
})

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
