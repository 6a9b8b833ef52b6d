package apidoc

import (
	"go/importer"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// unnameable lists the internal types that users meet, and why that is right.
var unnameable = map[string]string{
	"internal/engine.ContractBackend": "an opaque value, which contract.Backend returns and runtime.OpenConfig takes",
	"internal/activityspec.Mark": "the parameter of methods that only this module has, so that the option interfaces of " +
		"flow take the options of activity and no others",
}

// Users can name every type that they receive or pass: types of exported functions, variables, fields and methods of a
// public package are exported by a public package, or belong to another module. The parameters of a defined function
// type do not count: it is an option, which only this module makes. Nor do methods and fields with the name Internal:
// they pass an opaque handle to the other packages of this module.
func TestTypesCanBeNamed(t *testing.T) {
	t.Parallel()
	load := importer.ForCompiler(token.NewFileSet(), "gc", exportData(t)).Import
	var list []*types.Package
	for _, name := range publicFolders(t) {
		pkg, err := load(module + "/" + name)
		require.NoError(t, err)
		list = append(list, pkg)
	}
	w := nameWalk{aliases: make(map[*types.TypeName]string), met: make(map[string][]string)}
	for _, pkg := range list {
		w.findAliases(pkg)
	}
	for _, pkg := range list {
		w.walkPackage(pkg)
	}
	for internal, places := range w.met {
		if unnameable[internal] == "" {
			slices.Sort(places)
			t.Errorf("users cannot name %s, the type of %s", internal, strings.Join(places, ", "))
		}
	}
	for internal := range unnameable {
		require.Contains(t, w.met, internal, "it is listed, and users do not meet it")
	}
}

// nameWalk goes through the exported API of the public packages.
type nameWalk struct {
	// aliases are the names that public packages give to internal types.
	aliases map[*types.TypeName]string
	// met holds the internal types without a name, with the places in public packages.
	met map[string][]string
}

func (w *nameWalk) findAliases(pkg *types.Package) {
	for _, name := range pkg.Scope().Names() {
		named, _ := types.Unalias(pkg.Scope().Lookup(name).Type()).(*types.Named)
		if obj, ok := pkg.Scope().Lookup(name).(*types.TypeName); ok && obj.Exported() && obj.IsAlias() && named != nil {
			w.aliases[named.Obj()] = name
		}
	}
}

func (w *nameWalk) walkPackage(pkg *types.Package) {
	for _, name := range pkg.Scope().Names() {
		obj := pkg.Scope().Lookup(name)
		place := strings.TrimPrefix(pkg.Path(), module+"/") + "." + name
		switch {
		case !obj.Exported():
		case isTypeName(obj):
			w.walkType(place, obj.Type())
		default:
			w.walk(place, obj.Type())
		}
	}
}

func isTypeName(obj types.Object) bool {
	_, ok := obj.(*types.TypeName)
	return ok
}

// walkType visits the exported fields and methods of a declared type.
func (w *nameWalk) walkType(place string, typ types.Type) {
	named, ok := types.Unalias(typ).(*types.Named)
	if !ok {
		w.walk(place, typ)
		return
	}
	for m := range named.Methods() {
		if m.Exported() {
			w.walk(place+"."+m.Name(), m.Type())
		}
	}
	if _, option := named.Underlying().(*types.Signature); !option {
		w.walk(place, named.Underlying())
	}
}

// walk goes through a type as it is written at a place.
func (w *nameWalk) walk(place string, typ types.Type) {
	if strings.HasSuffix(place, ".Internal") {
		return
	}
	switch typ := typ.(type) {
	case *types.Alias:
		if !isInternal(typ.Obj()) {
			return
		}
		w.walk(place, types.Unalias(typ))
	case *types.Named:
		if isInternal(typ.Obj()) && w.aliases[typ.Obj()] == "" {
			internal := strings.TrimPrefix(typ.Obj().Pkg().Path(), module+"/") + "." + typ.Obj().Name()
			w.met[internal] = append(w.met[internal], place)
		}
		for arg := range typ.TypeArgs().Types() {
			w.walk(place, arg)
		}
	case *types.Signature:
		for v := range typ.Params().Variables() {
			w.walk(place, v.Type())
		}
		for v := range typ.Results().Variables() {
			w.walk(place, v.Type())
		}
	case *types.Struct:
		for f := range typ.Fields() {
			if f.Exported() {
				w.walk(place+"."+f.Name(), f.Type())
			}
		}
	case *types.Interface:
		for m := range typ.ExplicitMethods() {
			if m.Exported() {
				w.walk(place+"."+m.Name(), m.Type())
			}
		}
		for e := range typ.EmbeddedTypes() {
			w.walk(place, e)
		}
	case *types.Map:
		w.walk(place, typ.Key())
		w.walk(place, typ.Elem())
	case interface{ Elem() types.Type }: // a pointer, a slice, an array, a channel
		w.walk(place, typ.Elem())
	}
}

// isInternal reports whether a type can be imported by this module only.
func isInternal(obj *types.TypeName) bool {
	return obj.Pkg() != nil && strings.HasPrefix(obj.Pkg().Path(), module+"/") &&
		(!obj.Exported() || slices.Contains(strings.Split(path.Clean(obj.Pkg().Path()), "/"), "internal"))
}
