package lualib

import (
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/flowfabric/flowfabric-go/lua"
)

// Name is the name under which the library is loaded.
const Name = "flowfabric"

const (
	// Protocol is the version of the agreement between library and programs. Within one protocol, ffx_*
	// functions only gain: new functions, optional arguments, and values at the end of replies.
	Protocol = 3
	// MinProtocol is the oldest protocol of programs that this library still serves. Programs of an older protocol find
	// none of the functions they call, except ffx_version.
	MinProtocol = 3
	// MinStored is the oldest protocol whose stored runs this program reads.
	MinStored = 3
)

// folders lists the folders of the library in the order in which they are assembled; within a folder, files follow each
// other by name. Folders below composite/ hold the ffx_* functions and the code that only they use. Names that a file
// uses while the library loads must be declared above it, which codegen checks; functions may call each other whatever
// the order.
var folders = []string{
	"frame", "generated", "execution", "waiting", "graph", "limits",
	"composite/generated", "composite/rows", "composite/submit", "composite/claiming", "composite/completing", "composite/usual",
	"composite/waits",
	"composite/runs", "composite/children", "composite/limits", "composite/budgets", "composite/schedules",
	"composite/arrival",
	"composite/directory",
	"composite/maintenance", "composite",
}

// Files with a fixed position, whatever their names. The prelude and the declarations of modules come before all
// others, and a registration comes after everything that it registers.
const (
	prelude           = "frame/prelude.lua"
	modules           = "generated/modules.gen.lua"
	register          = "generated/register.gen.lua"
	compositeModules  = "composite/generated/modules.gen.lua"
	compositeRegister = "composite/generated/register.gen.lua"
)

// Files lists the files of the library in the order in which they are assembled, by their paths in folder lua.
func Files() []string { return Order(lua.Files()) }

// Order lists the files of the library that a file system holds, in the order in which they are assembled.
func Order(files fs.FS) []string {
	out := []string{prelude, modules, compositeModules}
	for _, folder := range folders {
		// A folder that cannot be read has no files, which a test would notice.
		found, _ := fs.Glob(files, folder+"/*.lua")
		slices.Sort(found)
		for _, file := range found {
			if !slices.Contains([]string{prelude, modules, register, compositeModules, compositeRegister}, file) {
				out = append(out, file)
			}
		}
	}
	return append(out, register, compositeRegister)
}

// IsComposite reports whether a file belongs to the composite calls, which the contract library leaves out.
func IsComposite(file string) bool { return strings.HasPrefix(file, "composite/") }

// IsGenerated reports whether codegen writes a file.
func IsGenerated(file string) bool { return strings.HasSuffix(file, ".gen.lua") }

// Source is the whole library, ready for FUNCTION LOAD.
func Source() string { return source() }

// ContractSource is the library without the composite calls.
func ContractSource() string { return contractSource() }

// Each library is assembled once for a process: it has almost a megabyte.
var (
	source         = sync.OnceValue(func() string { return embedded(false) })
	contractSource = sync.OnceValue(func() string { return embedded(true) })
)

func embedded(contract bool) string {
	// Every listed file is embedded, which a test checks, so Assemble cannot fail.
	source, _ := Assemble(lua.Files(), contract)
	return source
}

// Assemble puts the files of a file system into one source text; contract leaves the composite calls out.
func Assemble(files fs.FS, contract bool) (string, error) {
	var b strings.Builder
	b.WriteString("#!lua name=" + Name + "\n")
	for _, file := range Order(files) {
		if contract && IsComposite(file) {
			continue
		}
		text, err := fs.ReadFile(files, file)
		if err != nil {
			return "", err
		}
		b.WriteString(Block(file, string(text)))
	}
	return b.String(), nil
}

// Block is the text of a file in the library. The prelude and generated files declare shared names and are copied
// unchanged. Any other file becomes a block, so that its locals are its own: the interpreter allows 200 in one scope.
// Line numbers within the file stay the same.
func Block(file, text string) string {
	if file == prelude || IsGenerated(file) {
		return text
	}
	return "do " + text + "end\n"
}

// Build identifies this state of the library: a revision that grows with every change, and a hash of the source.
func Build() string { return build }
