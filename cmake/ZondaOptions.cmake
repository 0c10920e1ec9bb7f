# Compiler settings that hold for every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")
add_compile_options(-Wall -Wextra)
if(NOT ZONDA_SANITIZE)
  # With sanitizers GCC 12 warns of paths that cannot be taken; warnings count in the plain build.
  add_compile_options(-Werror)
endif()
# A multiply and an add are fused only where the source says so: results must not depend on the optimiser.
add_compile_options(-ffp-contract=off)

if(ZONDA_SANITIZE)
  add_compile_options(-fsanitize=${ZONDA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  add_link_options(-fsanitize=${ZONDA_SANITIZE})
endif()

find_program(ZONDA_CCACHE ccache)
if(ZONDA_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${ZONDA_CCACHE}")
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${ZONDA_CCACHE}")
endif()
find_program(ZONDA_MOLD mold)
if(ZONDA_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
