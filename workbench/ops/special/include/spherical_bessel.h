// Spherical Bessel functions: xsf's header of them takes the others for included.
#pragma once

#include <cupy/xsf/bessel.h>
#include <cupy/xsf/sph_bessel.h>

namespace workbench {

using xsf::sph_bessel_i;
using xsf::sph_bessel_i_jac;
using xsf::sph_bessel_j;
using xsf::sph_bessel_j_jac;
using xsf::sph_bessel_k;
using xsf::sph_bessel_k_jac;
using xsf::sph_bessel_y;
using xsf::sph_bessel_y_jac;

} // namespace workbench
